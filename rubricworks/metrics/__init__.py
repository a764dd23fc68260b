"""Scores of captions and images, agreement of raters, rank correlations, Elo ratings and confidence intervals.

Pure functions of arrays and small values. `coco_scores` alone starts programs, and CAPTURE's synonyms read WordNet.
"""

from rubricworks.metrics.agreement import (
    Agreement,
    accuracy,
    alpha_estimate,
    cohen_kappa,
    confusion,
    krippendorff_alpha,
    pair_agreement,
)
from rubricworks.metrics.caparena import (
    caparena_auto,
    caption_level_agreement,
    elo_bootstrap,
    elo_mle,
    elo_online,
    model_level_agreement,
)
from rubricworks.metrics.caption_scores import (
    CANNOT_ANSWER,
    LETTERS,
    NO_WORDS,
    DCScore,
    FactScore,
    StatedFact,
    b_capscore,
    dc_score,
    extract_letter,
    is_yes_no,
    mean_dc_score,
    offered_options,
)
from rubricworks.metrics.capture import capture_score, synonym_score
from rubricworks.metrics.coco import coco_caption_scores, coco_scores
from rubricworks.metrics.comparisons import holm, paired_p_value
from rubricworks.metrics.dpg import dpg_categories, dpg_score
from rubricworks.metrics.geneval import (
    box_iou,
    confident_detections,
    geneval_correct,
    geneval_reasons,
    geneval_summary,
    relative_position,
)
from rubricworks.metrics.intervals import (
    Interval,
    bootstrap_interval,
    mean_interval,
    paired_differences,
    share_interval,
    t_interval,
    wilson_interval,
)
from rubricworks.metrics.judge_stability import Drift, drift, flip_rate
from rubricworks.metrics.prediction_powered import ErrorRates, error_rates, prediction_powered_mean
from rubricworks.metrics.rankings import kendall_tau_b, ranking_agreement, spearman
from rubricworks.metrics.specs import specs_score

__all__ = [
    "CANNOT_ANSWER",
    "LETTERS",
    "NO_WORDS",
    "Agreement",
    "DCScore",
    "Drift",
    "ErrorRates",
    "FactScore",
    "Interval",
    "StatedFact",
    "accuracy",
    "alpha_estimate",
    "b_capscore",
    "bootstrap_interval",
    "box_iou",
    "caparena_auto",
    "caption_level_agreement",
    "capture_score",
    "coco_caption_scores",
    "coco_scores",
    "cohen_kappa",
    "confident_detections",
    "confusion",
    "dc_score",
    "dpg_categories",
    "dpg_score",
    "drift",
    "elo_bootstrap",
    "elo_mle",
    "elo_online",
    "error_rates",
    "extract_letter",
    "flip_rate",
    "geneval_correct",
    "geneval_reasons",
    "geneval_summary",
    "holm",
    "is_yes_no",
    "kendall_tau_b",
    "krippendorff_alpha",
    "mean_dc_score",
    "mean_interval",
    "model_level_agreement",
    "offered_options",
    "pair_agreement",
    "paired_differences",
    "paired_p_value",
    "prediction_powered_mean",
    "ranking_agreement",
    "relative_position",
    "share_interval",
    "spearman",
    "specs_score",
    "synonym_score",
    "t_interval",
    "wilson_interval",
]
