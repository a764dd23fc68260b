"""The embedded scene world: images whose truth is known, and scripted models that are served like real ones."""
