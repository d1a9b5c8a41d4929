"""Backends: what is common to them; `kinds` has a record for each, `local` runs transformers, `service` asks servers."""
