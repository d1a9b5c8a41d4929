"""Passages, indexes over them, and the passages found for each question (SPEC §4)."""
