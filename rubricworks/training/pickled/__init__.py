"""Weights that are published as torch pickles: read in a sandboxed process, and written as safetensors."""
