"""Files, weights and placement of models: what generation, embedding, entailment and tuning share."""
