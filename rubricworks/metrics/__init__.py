"""Scores of captions and images, agreement of raters, rank correlations, Elo ratings and confidence intervals.

Pure functions of arrays and small values.
"""

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
