"""What a single answer is and whether it is right: its text and sentences (`model_answer`), rules of correctness
(`match`, SPEC §5), `confidence` (SPEC §11), and the interval of a share (`intervals`).

Rates over answers are dbt models.
"""
