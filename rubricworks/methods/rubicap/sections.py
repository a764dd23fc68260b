"""Report of a RubiCap run."""

from functools import partial

from rubricworks.evaluation.scoreboard import LENGTH, POLICY, WIN
from rubricworks.metrics import Interval
from rubricworks.reports.examples import examples
from rubricworks.reports.formats import number, percent
from rubricworks.reports.headline import Headline, hero, is_small
from rubricworks.reports.page import Block, Report
from rubricworks.reports.record import RECORD
from rubricworks.reports.results import criteria, gain_tile, results, win_tile
from rubricworks.reports.run_folder import RunFolder
from rubricworks.reports.run_summary import RunSummary, last_lines
from rubricworks.reports.training import training
from rubricworks.stages.release.judge_trust import audited_rubrics, judge_errors
from rubricworks.training.policy.response_statistics import OBJECTS, REPETITION

_MISSING = {
    WIN: "No win rate: the pairwise judge answered no comparison.",
    "rubric_reward": "No rubric reward: no held-out sample has a rubric that could be judged.",
    "oracle_f1": "No oracle: nothing here knows the truth of these images. The win rate is the evidence that does not "
    "come from the rubrics.",
}


def opening(run: RunFolder) -> Block:
    """Headline: the policy beside its base model."""
    board = run.board
    tiles = (
        [
            win_tile(board),
            *(gain_tile(board, figure) for figure in ("rubric_reward", "oracle_f1", LENGTH)),
        ]
        if board
        else []
    )
    return hero(run, headline(board.mean(POLICY, WIN) if board else None), [tile for tile in tiles if tile])


def headline(win: Interval | None) -> Headline:
    if win is None:
        return Headline("The trained policy has not been compared with its base model.")
    share = f"{percent(win.value)} of {win.samples} held-out comparisons"
    if is_small(win):
        return Headline(f"Too few comparisons to tell: the trained policy wins {share}.")
    if win.lies_above(0.5):
        return Headline(f"The trained policy beats its base model: it wins {share}.", "good")
    if win.lies_below(0.5):
        return Headline(f"The trained policy is worse than its base model: it wins only {share}.", "bad")
    return Headline(f"No clear winner: the trained policy wins {share}, which chance could explain.")


def success_lines(summary: RunSummary) -> list[str]:
    lines = []
    if win := summary.win_rate:
        lines.append(f"win rate against the base: {win.value:.2f} [{number(win.low)}, {number(win.high)}]")
    for name, pair in (("oracle f1", summary.oracle_f1), ("rubric reward", summary.rubric_reward)):
        if pair.base is not None and pair.policy is not None:
            lines.append(f"{name}: {pair.base:.2f} → {pair.policy:.2f}")
    return [*lines, *last_lines(summary)]


REPORT = Report(
    method="rubicap",
    sections=(
        opening,
        audited_rubrics,
        judge_errors,
        partial(
            training,
            noun="caption",
            statistics={"Objects named per caption": OBJECTS, "Repeated phrases": REPETITION},
            note="Objects named: phrases that begin like the name of a thing. Repeated phrases: share of four-word "
            "sequences said before in the same caption.",
        ),
        partial(results, missing=_MISSING),
        criteria,
        examples,
        *RECORD,
    ),
    success_lines=success_lines,
    trainings={"train_policy": ""},
    footer="Intervals are 95 % bootstrap intervals over held-out samples, or Wilson's at 0 and 100 %.",
)
