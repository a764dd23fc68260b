"""Checks of the papers' directional claims as mechanisms in the scene world: runs, verdicts, pages.

The claims themselves stand in `methods/<paper>/claims`.
"""

from rubricworks.claims.claim import Claim, Finding, Observation, judge_claim

__all__ = ["Claim", "Finding", "Observation", "judge_claim"]
