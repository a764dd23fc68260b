"""Tasks that a pipeline has only on a cluster: preflight, accelerator check, outcome."""
