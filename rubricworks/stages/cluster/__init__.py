"""Tasks that a pipeline has on a cluster alone: preflight, accelerator check, outcome."""
