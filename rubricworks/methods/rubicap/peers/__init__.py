"""Baselines that RubiCap is compared with, trained on the same samples in the place of its reward."""
