"""Backends: `base` is their contract, `kinds` has a record for each.

`hf` runs models on this machine by `local`, `openai` asks servers by `service`, and `fake` needs no model.
"""
