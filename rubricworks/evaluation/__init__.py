"""How good captions are: pairwise preference (CapArena), an oracle where truth is known, and their summary."""
