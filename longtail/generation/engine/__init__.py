"""From a plan of items to a partition's rows.

`partition.generate` makes one partition of a `task`'s table: `job` fixes the batches of its plan, takes what the
`row_cache` has, and asks the `session`'s model for the rest. The engine knows items, prompts and requests, and neither
what a table means (`tasks`) nor how an answer is computed (`backends`).
"""
