"""RubiCap's arms, as `rubricworks arms` compares them: the paper's baselines on one recipe (sections 4.1 and 4.4).

All policies of a table start from the same base model and decode greedily on the same held-out images. Intervals are
over those images and do not cover the variance between trainings.
"""

from functools import partial

from rubricworks.claims.arm_table import ArmForm, Column, arm_rows, read_arms, write_documents
from rubricworks.claims.arms import OWN, ArmComparison, ArmDocuments, ArmRuns
from rubricworks.claims.run_scores import is_finished, read_scores
from rubricworks.evaluation.scoreboard import BASE, LENGTH, WIN, Scoreboard
from rubricworks.metrics import Interval

_OWN_RUBRICS = "rubric_reward"
TABLES: dict[str, tuple[str, ...]] = {
    "baselines": (
        *("sft_expert", "sft_proprietary", "sft_strong", "rouge_l", "direct_likert", "reference_likert", "caprl"),
        *("rubric_sft", OWN, "full_guards"),
    ),
    "hacking": (OWN, "greedy", "lenient"),
    "policy_aware": (OWN, "contrast", "refill", "refreshed", "lenient", "lenient_pitfalls", "lenient_refreshed"),
    "noise": (OWN, "noisy", "noisy_corrected"),
}
"""Rows below the base model's, in the paper's order."""
TITLES: dict[str, str] = {
    "baselines": "RubiCap and its baselines",
    "hacking": "Conditions under which the reward is gamed",
    "policy_aware": "Rewards that know the policy",
    "noise": "A judge with errors, and rewards corrected for them",
}
LABELS = {
    BASE: "Base model",
    OWN: "RubiCap",
    "sft_expert": "SFT, expert",
    "sft_proprietary": "SFT, proprietary",
    "sft_strong": "SFT, strong model",
    "rouge_l": "ROUGE-L RL",
    "direct_likert": "Direct-Likert",
    "reference_likert": "Reference-Likert",
    "caprl": "CapRL",
    "rubric_sft": "SFT with rubrics",
    "full_guards": "RubiCap, full, guards",
    "greedy": "Greedy students",
    "lenient": "Lenient writer",
    "contrast": "Weights by contrast",
    "refill": "Refilled prompts",
    "refreshed": "Refreshed rubrics",
    "lenient_pitfalls": "Lenient writer, pitfalls",
    "lenient_refreshed": "Lenient writer, refreshed",
    "noisy": "Judge with errors",
    "noisy_corrected": "Judge with errors, corrected",
}
FORM = ArmForm(
    columns={
        WIN: Column("Arena", of_base=0.5),
        "coco_rouge_l": Column("ROUGE-L"),
        "coco_corpus_meteor": Column("METEOR"),
        "coco_corpus_bleu_4": Column("BLEU-4"),
        "likert_rating": Column("Likert"),
        _OWN_RUBRICS: Column("Rubric"),
        "oracle_f1": Column("Oracle F1", "Oracle"),
        LENGTH: Column("Length", plain=True),
    },
    legend=(
        "Scores in percent, length in tokens, 95 % intervals over the held-out images. Arena is the share of pairwise "
        "comparisons with the base model that were won. ROUGE-L, METEOR and BLEU-4 are against the captions that came "
        "with the images. Rubric is the reward by the held-out rubrics of RubiCap's own run; an arm that writes others "
        "has none."
    ),
    simulated=(
        "Simulated: images, captioners, rubric writer and judges are the scene world's, with programmed faults; the "
        "student and its training are real."
    ),
    stood_in="images, captioners, rubric writer and judges",
)


def _figures(own: Scoreboard, board: Scoreboard, model: str) -> dict[str, Interval]:
    """Figures of a model, without the reward by rubrics that are not those of the recipe's own run."""
    figures = {figure: mean for figure in FORM.columns if (mean := board.mean(model, figure))}
    if board.mean(BASE, _OWN_RUBRICS) != own.mean(BASE, _OWN_RUBRICS):
        figures.pop(_OWN_RUBRICS, None)
    return figures


def write_table(runs: ArmRuns) -> ArmDocuments:
    """Write the table of the runs in each form.

    Raises:
        UserError: a run is not finished, damaged, or began with another base model.
    """
    read = partial(read_scores, method="rubicap")
    boards = read_arms(runs.folders, read, lambda board: board.mean(BASE, LENGTH))
    rows = arm_rows(boards, partial(_figures, boards[OWN]), lambda arm: LABELS.get(arm, arm))
    return write_documents(runs, rows, FORM)


ARMS = ArmComparison(titles=TITLES, tables=TABLES, is_finished=is_finished, write=write_table, default="baselines")
