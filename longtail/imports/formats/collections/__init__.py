"""Formats of collections of passages or articles: one module each with its record, `FORMAT`."""
