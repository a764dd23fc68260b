"""Models that a run serves itself: identity, servers on this machine, and their life across stages."""
