"""Sentence encoders, and the embeddings of answers (SPEC §7)."""
