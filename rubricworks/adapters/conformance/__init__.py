"""Unjudged is never zero: cases that show what becomes of a rollout that no judge could score.

A trainer is given groups with missing rewards, a reward function a judge that fails. `rubricworks conformance` runs
them; `check_trainer` does the same for a trainer of your own.
"""

from rubricworks.adapters.conformance.cases import CASES, Batch, Case, Cell, Failure
from rubricworks.adapters.conformance.findings import Finding, Outcome, Trainer, check_trainer

__all__ = ["CASES", "Batch", "Case", "Cell", "Failure", "Finding", "Outcome", "Trainer", "check_trainer"]
