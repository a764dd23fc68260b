"""The HTTP service of an installation: alive, ready, its version, behind a token. It has no pages yet."""
