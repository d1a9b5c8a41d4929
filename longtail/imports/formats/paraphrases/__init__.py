"""Formats of paraphrases: one module each with its record, `FORMAT`."""
