"""What a single answer is and whether it is right: its text, rules of correctness (SPEC §5), confidence (SPEC §11),
sentences.

Rates over answers are dbt models.
"""
