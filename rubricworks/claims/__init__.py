"""Checks of the papers' pre-registered claims in the scene world: arms, seeds, gates, verdicts, pages.

The claims themselves are in `methods/<paper>/claims.yaml`.
"""
