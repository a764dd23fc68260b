"""Release stages: registry, gate, promotion and the run's report."""
