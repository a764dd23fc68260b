"""Views of the stages that train: curves, the alarm, and responses at the first and at the last step."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from rubricworks.data.alarm import Alarm, read_alarm
from rubricworks.data.response_images import ResponseImages
from rubricworks.reports.charts import LineChart, line_chart
from rubricworks.reports.curves import Step, read_steps
from rubricworks.reports.formats import number, whole
from rubricworks.reports.run_folder import table_rows
from rubricworks.reports.series_charts import SeriesChart
from rubricworks.reports.views.parts import Card, FinishedStage, Passage, Tile, View, picture, response_passage
from rubricworks.training.checkpoints import last_checkpoint

_ROLLOUT_COUNT = 4
"""Rollouts of a group on a card."""


def warm_up(stage: FinishedStage) -> View:
    """The view of the warm-up: the loss, if the student was trained."""
    steps, losses = _losses(stage)
    if not losses:
        untrained = (stage.out / "model").is_symlink()
        return View("The student is passed on as it is." if untrained else "The loss of the warm-up was not kept.")
    curve = line_chart("Loss on the answers' tokens", losses) if len(losses) > 1 else None
    return View(
        sentence=f"The student learned for {whole(steps)} steps, to a loss of {number(losses[-1][1])}.",
        metrics={"loss_first": losses[0][1], "loss": losses[-1][1]},
        curves=[curve] if curve else [],
    )


def policy(
    stage: FinishedStage, series: Sequence[SeriesChart] = (), rewards: Mapping[str, float] | None = None
) -> View:
    """The view of policy training: reward curves, the hacking alarm, and one group's rollouts at either end.

    Args:
        series: charts to show in place of the reward's curve.
        rewards: further figures of the last step.
    """
    alarm = read_alarm(stage.run / stage.name)
    steps = read_steps(stage.run, stage.name)
    curves = reward_curves(steps, alarm)
    unjudged, rollouts = sum(one.unjudged for one in steps), sum(one.rollouts for one in steps)
    return View(
        sentence=_sentence(steps, curves, stage),
        mood="bad" if alarm else "open",
        notes=[f"Hacking alarm, {alarm}. A higher reward is no evidence of better responses here."] if alarm else [],
        metrics={
            "steps": steps[-1].step if steps else None,
            **reward_ends(curves),
            **(rewards or {}),
            "unjudged": unjudged / rollouts if rollouts else None,
            "tokens": steps[-1].tokens if steps else None,
            "alarm_step": alarm.step if alarm else None,
        },
        curves=[] if series else curves,
        series=list(series),
        tiles=[
            Tile("Rollouts", whole(rollouts), f"{whole(unjudged)} could not be judged"),
            Tile("Alarm", f"step {alarm.step}" if alarm else "none"),
        ]
        if steps
        else [],
        cards_title="Rollouts of one group at the first step and at the last",
        cards_note="The first group of either step, its best rollouts first.",
        cards=_groups(stage, steps),
    )


def _losses(stage: FinishedStage) -> tuple[int, list[tuple[float, float]]]:
    """Steps of a supervised training and its (step, loss), from the state in its last checkpoint."""
    checkpoint = last_checkpoint(stage.out)
    if checkpoint is None:
        return 0, []
    state = json.loads((checkpoint / "trainer_state.json").read_bytes())
    losses = [(float(line["step"]), float(line["loss"])) for line in state["log_history"] if "loss" in line]
    return state["global_step"], losses


def reward_curves(steps: Sequence[Step], alarm: Alarm | None) -> list[LineChart]:
    marks = [(float(alarm.step), f"alarm, step {alarm.step}")] if alarm else []
    judged = [(float(step.step), step.reward) for step in steps if step.reward is not None]
    charts = [
        line_chart("Reward", judged, bounds=(0.0, 1.0), marks=marks),
        line_chart("Tokens per response", [(float(step.step), step.tokens) for step in steps], marks=marks),
    ]
    return [chart for chart in charts if chart]


def reward_ends(curves: Sequence[LineChart]) -> dict[str, float]:
    """The first and last value of the smoothed reward."""
    return next(({"reward_first": one.first, "reward": one.last} for one in curves if one.title == "Reward"), {})


def _sentence(steps: Sequence[Step], curves: Sequence[LineChart], stage: FinishedStage) -> str:
    if not steps:
        _, losses = _losses(stage)
        return f"Trained on references, to a loss of {number(losses[-1][1])}." if losses else "There are no rollouts."
    ends = reward_ends(curves)
    if not ends:
        return "No rollout has a reward: the judge answered none of them."
    change = f"from {number(ends['reward_first'])} to {number(ends['reward'])}"
    return f"Over {whole(steps[-1].step)} steps the reward went {change}."


def _groups(stage: FinishedStage, steps: Sequence[Step]) -> list[Card]:
    if not steps:
        return []
    ends = sorted({steps[0].step, steps[-1].step})
    groups: dict[int, list[dict[str, Any]]] = {step: [] for step in ends}
    for row in table_rows(stage.out / "rollouts"):
        if row["step"] in groups and row["sample_id"] == (groups[row["step"]] or [row])[0]["sample_id"]:
            groups[row["step"]].append(row)
    samples = stage.samples(rows[0]["sample_id"] for rows in groups.values())
    images = ResponseImages.of_table(stage.out / "rollouts")
    return [_group(step, rows, samples.get(rows[0]["sample_id"]), images) for step, rows in groups.items()]


def _group(step: int, rows: list[dict[str, Any]], sample: dict[str, Any] | None, images: ResponseImages) -> Card:
    best = sorted(rows, key=lambda row: math.inf if row["reward"] is None else -row["reward"])[:_ROLLOUT_COUNT]
    more = len(rows) - len(best)
    asked = sample and (sample["question"] or (not sample["image"] and sample["prompt"]))
    question = [Passage("Question" if sample and sample["question"] else "Prompt", asked)] if asked else []
    return Card(
        rows[0]["sample_id"],
        picture(sample),
        [
            *question,
            *(response_passage(_reward_text(row), row, images, f"{row['tokens']} tokens", "policy") for row in best),
        ],
        note=f"step {step}" + (f", {more} more rollouts" if more > 0 else ""),
    )


def _reward_text(row: dict[str, Any]) -> str:
    return "could not be judged" if row["reward"] is None else f"reward {number(row['reward'])}"
