"""Training and judging the sandbox's reference models (`python -m tools.reference_models`)."""
