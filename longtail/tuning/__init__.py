"""Fine-tuning of readers that retrieve: training, checkpoints, and how consistent each is (SPEC §8)."""
