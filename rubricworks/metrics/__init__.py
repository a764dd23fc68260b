"""Numbers about captions and runs, and how sure they are. Pure functions of arrays."""

from rubricworks.metrics.agreement import (
    Agreement,
    Estimate,
    accuracy,
    alpha_estimate,
    cohen_kappa,
    confusion,
    krippendorff_alpha,
    pair_agreement,
)
from rubricworks.metrics.caption_score import b_capscore
from rubricworks.metrics.intervals import Interval, bootstrap_interval, clustered_interval
from rubricworks.metrics.rankings import kendall_tau_b, ranking_agreement, spearman

__all__ = [
    "Agreement",
    "Estimate",
    "Interval",
    "accuracy",
    "alpha_estimate",
    "b_capscore",
    "bootstrap_interval",
    "clustered_interval",
    "cohen_kappa",
    "confusion",
    "kendall_tau_b",
    "krippendorff_alpha",
    "pair_agreement",
    "ranking_agreement",
    "spearman",
]
