"""Longtail: when not to trust a language model."""
