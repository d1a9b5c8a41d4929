"""Generation: prompts, the backends that answer them, and lake tables of what they answered.

`tasks` describes one generated table each, `prompts` writes prompts, `engine` plans, resumes and accounts for items,
`backends` answers them, and `latency` measures how long one user waits. Downloading and placing weights is not here
(`models`).
"""
