"""What a single answer is and whether it is right: its text and sentences and how sure the model was of it
(`model_answer`), rules of correctness (`match`, SPEC §5), and the interval of a share (`intervals`).

Rates over answers are dbt models.
"""
