"""RubricRL's arms, as `rubricworks arms` compares them: the paper's Tables 1 and 5 to 7 on one recipe.

All generators of a table start from the same one and draw the same held-out prompts. Intervals are over those images
and do not cover the variance between trainings.
"""

from functools import partial

from rubricworks.claims.arm_table import ArmForm, Column, arm_rows, read_arms, write_documents
from rubricworks.claims.arms import OWN, ArmComparison, ArmDocuments, ArmRuns
from rubricworks.claims.run_scores import is_finished, read_scores
from rubricworks.evaluation.scoreboard import BASE, Scoreboard
from rubricworks.metrics import Interval

OVERALL = "geneval_correct"
TABLES: dict[str, tuple[str, ...]] = {
    "rewards": ("clip", "hps", "unified", "llava", "ar_grpo", "x_omni", OWN),
    "selection": ("vanilla", "hybrid", "ffkc_1d", "dapo", OWN),
    "normalisation": ("all_rollouts", OWN),
    "supervised": ("sft", "best_of_n", OWN),
    "all": (
        *("clip", "hps", "unified", "llava", "ar_grpo", "x_omni", "vanilla", "hybrid", "ffkc_1d", "dapo"),
        *("all_rollouts", "sft", "best_of_n", OWN),
    ),
}
"""Rows below the base model's, in the paper's order; `hybrid` where the recipe itself keeps every rollout."""
TITLES: dict[str, str] = {
    "rewards": "Rewards (Table 1)",
    "selection": "Selection of rollouts (Table 5)",
    "normalisation": "Scope of the advantages (Table 6)",
    "supervised": "Supervised peers (Table 7)",
    "all": "RubricRL and its peers",
}
LABELS = {
    BASE: "Pretrained",
    OWN: "RubricRL",
    "vanilla": "Vanilla, no dynamics",
    "hybrid": "Hybrid",
    "ffkc_1d": "FFKC-1D",
    "dapo": "DAPO",
    "all_rollouts": "RubricRL, GN",
    "sft": "SFT, captioned",
    "best_of_n": "SFT on best of 8",
    "clip": "CLIPScore",
    "hps": "HPSv2",
    "unified": "Unified Reward",
    "llava": "LLaVA-Reward-Phi",
    "ar_grpo": "AR-GRPO",
    "x_omni": "X-Omni",
}
_TASKS = {
    "single_object": Column("Single obj.", "Single"),
    "two_object": Column("Two obj.", "Two"),
    "counting": Column("Counting", "Count"),
    "colors": Column("Colors"),
    "position": Column("Position", "Pos."),
    "color_attr": Column("Color attr.", "Attr."),
}
_GAIN = "gain"
FORM = ArmForm(
    columns={
        OVERALL: Column("GenEval"),
        _GAIN: Column("Gain"),
        **_TASKS,
        "rubric_reward": Column("Rubric"),
    },
    legend=(
        "GenEval is the mean over its tasks, in percent; the gain over the pretrained generator is paired by image. "
        "“Rubric” is the reward of the judge that also trains. 95 % intervals over the held-out images."
    ),
    simulated=(
        "Simulated: pictures, judge, detector and peer rewards are the scene world's, with programmed faults; the "
        "generator and its training are real."
    ),
    stood_in="pictures, judge, detector and peer rewards",
)


def _figures(board: Scoreboard, model: str) -> dict[str, Interval]:
    scores = board.scores(model)
    assert scores is not None
    figures = {figure: scores.means[figure] for figure in (OVERALL, "rubric_reward") if figure in scores.means}
    if OVERALL in scores.gains:
        figures[_GAIN] = scores.gains[OVERALL]
    return figures | dict(scores.tasks.get(OVERALL, {}))


def write_table(runs: ArmRuns) -> ArmDocuments:
    """Write the table of the runs in each form.

    Raises:
        UserError: a run is not finished, damaged, or began with another base model.
    """
    read = partial(read_scores, method="rubricrl")
    boards = read_arms(runs.folders, read, lambda board: _figures(board, BASE))
    return write_documents(runs, arm_rows(boards, _figures, lambda arm: LABELS.get(arm, arm)), FORM)


ARMS = ArmComparison(titles=TITLES, tables=TABLES, is_finished=is_finished, write=write_table)
