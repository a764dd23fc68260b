"""Runs in an S3 store: the workspace on this machine, the mirror that uploads it, attempts and shared state."""
