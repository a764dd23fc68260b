"""Deterministic scores of an extracted value against its target: the six verifiers of RLR³ (table 7).

Each is a pure function of its arguments with a score in [0, 1]; an answer at fault scores 0, a target at fault raises
CannotVerify. `run_verifier` puts a rubric's call and an extractor's call together; both are read, never evaluated.
"""

from rubricworks.verifiers.boxes import bbox_verify
from rubricworks.verifiers.calls import VerifierCall, parse_verifier_call
from rubricworks.verifiers.expression.verify import expr_verify
from rubricworks.verifiers.failure import CannotVerify
from rubricworks.verifiers.lists import list_verify
from rubricworks.verifiers.points import point_verify
from rubricworks.verifiers.run import run_verifier
from rubricworks.verifiers.text import text_verify
from rubricworks.verifiers.times import time_verify

__all__ = [
    "CannotVerify",
    "VerifierCall",
    "bbox_verify",
    "expr_verify",
    "list_verify",
    "parse_verifier_call",
    "point_verify",
    "run_verifier",
    "text_verify",
    "time_verify",
]
