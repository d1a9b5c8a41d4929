"""Longtail: when not to trust a language model. `definitions` → `defs` → `core`, never the other way."""
