"""BalCapRL: caption rewards for precision, recall and language, normalised one by one (Ye et al., 2026)."""
