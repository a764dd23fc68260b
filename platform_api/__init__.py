"""HTTP service of an installation: liveness, readiness and version, behind a token. It has no pages yet."""
