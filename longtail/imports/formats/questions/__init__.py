"""Formats of questions: one module each with its record, `FORMAT`."""
