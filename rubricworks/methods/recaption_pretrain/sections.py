"""Report of a recaptioning run: two models, each pretrained on the captions of another captioner."""

from dataclasses import replace
from functools import partial

from pydantic import JsonValue

from rubricworks.evaluation.scoreboard import BASE, POLICY
from rubricworks.metrics import Interval
from rubricworks.reports.data import captions
from rubricworks.reports.formats import number
from rubricworks.reports.headline import Headline, is_small
from rubricworks.reports.page import Block, Report, of_stage
from rubricworks.reports.parts import Text
from rubricworks.reports.record import RECORD
from rubricworks.reports.results import task_block, task_results
from rubricworks.reports.run_folder import RunFolder
from rubricworks.reports.run_summary import RunSummary
from rubricworks.reports.training import losses

FIGURE = "answers_right"
"""Right answers, each benchmark with equal weight."""
_LOSSES = {
    "Loss in stage 1.5, captions": {"pretrain_baseline": ("base", "baseline"), "pretrain_vlm": ("policy", "policy")},
    "Loss in stage 2, instructions": {"tune_baseline": ("base", "baseline"), "tune_vlm": ("policy", "policy")},
}


def _captioners(run: RunFolder) -> tuple[str, str]:
    """Captioners of the policy and of the baseline."""
    section = run.recipe.get("pretraining")
    policy = str(section.get("captioner", "policy")) if isinstance(section, dict) else "policy"
    return policy, str(run.recipe.get("baseline", "the baseline"))


def opening(run: RunFolder) -> Block:
    """Headline: the difference between the models pretrained on the policy's and on the baseline's captions."""
    policy, baseline = _captioners(run)
    line = headline(run.board.gain(POLICY, FIGURE) if run.board else None, policy, baseline)
    alike = (
        "Both models are trained alike: the same images in the same order, the same steps, the same instructions. Only "
        f"the captions of stage 1.5 differ: by {policy} or by {baseline}, the baseline."
    )
    return Block(
        "headline",
        parts=[Text(line.text, f"headline {line.mood}"), Text(alike, "quiet")],
        details={"captioners": {"policy": policy, "baseline": baseline}},
    )


def headline(overall: Interval | None, policy: str, baseline: str) -> Headline:
    """Say whether the policy's captions pretrain the better model.

    Args:
        overall: macro difference of the two arms.
    """
    if overall is None:
        return Headline("The two models have not been compared.")
    points = f"{number(100 * overall.value, 1)} points [{number(100 * (overall.low or 0), 1)}, " + (
        f"{number(100 * (overall.high or 0), 1)}]"
    )
    if is_small(overall):
        return Headline(f"Too few questions to tell: {points}.")
    if overall.lies_above(0):
        return Headline(f"Captions by {policy} pretrain a better model than those by {baseline}: {points}.", "good")
    if overall.lies_below(0):
        return Headline(f"Captions by {policy} pretrain a worse model than those by {baseline}: {points}.", "bad")
    return Headline(f"No clear difference of {policy} from {baseline}: {points}, which chance could explain.")


def benchmarks(run: RunFolder) -> Block:
    """Right answers on each benchmark, paired by question."""
    policy, baseline = _captioners(run)
    board, tasks = run.board, task_results(run, "answers")
    block = task_block(
        "benchmarks",
        "Benchmarks: right answers on images that neither model has seen",
        tasks,
        names=(baseline, policy),
        missing="There is no evaluation by answers: the score stage has not finished, or has no such scorer.",
        total=(board.mean(BASE, FIGURE), board.mean(POLICY, FIGURE), board.gain(POLICY, FIGURE)) if board else None,
    )
    details: dict[str, JsonValue] = {
        result.task: {
            "base": result.base.value if result.base else None,
            "policy": result.policy.value if result.policy else None,
            "difference": result.difference.model_dump(mode="json") if result.difference else None,
        }
        for result in tasks
    }
    return replace(block, name="Benchmarks", details={"benchmarks": details})


def success_lines(summary: RunSummary) -> list[str]:
    right = summary.scores.get(FIGURE)
    if right is None or right.base is None or right.policy is None:
        return []
    gain = f" ({right.gain.value:+.3f} [{right.gain.low:+.3f}, {right.gain.high:+.3f}])" if right.gain else ""
    return [f"right answers after pretraining, baseline → policy: {right.base:.3f} → {right.policy:.3f}{gain}"]


REPORT = Report(
    method="recaption_pretrain",
    sections=(
        opening,
        benchmarks,
        of_stage("recaption", captions),
        partial(
            losses,
            charts=_LOSSES,
            note="A lower loss in stage 1.5 says that captions are easier to predict, not that they are better.",
        ),
        *RECORD,
    ),
    success_lines=success_lines,
    stood_in="images and captioners",
    footer="Intervals are 95 % bootstrap intervals over held-out questions, or Wilson's of a share; differences are "
    "paired by question. One seed: they do not contain the noise of training.",
)
