"""Longtail: when not to trust a language model. `definitions` imports `defs`, which imports `core`, never the reverse."""
