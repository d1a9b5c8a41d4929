"""Generation by transformers on this machine: states, steppers, batches, confidence.

Nothing here knows which rows it computes (`generation.engine`), or where weights come from (`models`).
"""
