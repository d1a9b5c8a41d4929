"""Grounding (According-to prompting, SPEC §9): data portraits of a corpus, QUIP scores, co-occurrences in its passages.

Means, bins and comparisons of prompts are dbt models.
"""
