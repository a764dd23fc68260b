"""HTTP service of an installation: its API, its pages, and probes."""
