"""A run in an S3 store: its workspace on this machine, its mirror, and what its attempts leave."""
