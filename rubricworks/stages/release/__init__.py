"""Registry, gate and promotion."""
