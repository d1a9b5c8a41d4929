"""Generation: prompts, the backends that answer them, and lake tables of what they answered.

An asset calls `engine.partition.generate` with a task of `tasks.registry`, which describes one generated table: its plan
of items, whose `prompts` are built when they are asked for, and its rows. The engine takes what its row cache has, and
asks a model of `backends` for the rest, batch by batch. `latency` measures how long one user waits for one answer.

To add a table, see `tasks`; to add a backend, `backends.kinds`. Downloading and placing weights is not here (`models`),
and neither is scoring an answer (`longtail.scoring`).
"""
