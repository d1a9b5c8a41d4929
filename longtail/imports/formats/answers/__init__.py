"""Formats of answers: one module each with its record, `FORMAT`."""
