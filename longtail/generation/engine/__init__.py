"""From a plan of items to a partition's rows: batches, the row cache, resuming, accounts, estimates.

It knows items, prompts and requests, and neither what a table means (`tasks`) nor how an answer is computed
(`backends`).
"""
