"""Flow-matching generators: the small one for laptops, pipelines of diffusers, and their training."""
