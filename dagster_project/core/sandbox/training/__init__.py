"""How the sandbox's reference models are trained and judged (`python -m …core.sandbox.train`)."""
