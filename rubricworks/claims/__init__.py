"""Checks of the papers' directional claims as mechanisms in the scene world, one module for each paper."""

from rubricworks.claims.claim import Claim, Finding, Observed, finding

__all__ = ["Claim", "Finding", "Observed", "finding"]
