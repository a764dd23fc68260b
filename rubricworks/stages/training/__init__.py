"""Training stages: supervised warm-up, and the parts that all policy trainings share."""
