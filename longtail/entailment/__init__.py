"""Entailment between answers, by any sequence-classification model (SPEC §7)."""
