"""Sections of trainings: curves over steps, rollouts of the first and the last step, losses of supervised ones.

Rollouts are summed in one pass; only one small record per step stays in memory. Their statistics are those of the
hacking alarm.
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rubricworks.data.alarm import read_outcome
from rubricworks.data.images import check_image
from rubricworks.data.response_images import IMAGES, ResponseImages, response_of
from rubricworks.reports.charts import Series, SeriesChart, curve, series_chart
from rubricworks.reports.formats import number, whole
from rubricworks.reports.page import Block
from rubricworks.reports.parts import Card, Cards, Charts, Fold, Part, Passage, Table, Text
from rubricworks.reports.run_folder import RunFolder, table_rows
from rubricworks.training.checkpoints import last_checkpoint
from rubricworks.training.policy.response_statistics import Statistic

_MAX_STEPS = 9
"""Rows of the table of steps."""
_ROLLOUT_COUNT = 4
"""Rollouts of a group on a card."""
_SMOOTHED = "Thin: mean of each step's rollouts. Bold: moving average."


class Step(NamedTuple):
    """Means over the rollouts of one training step."""

    step: int
    rollouts: int
    unjudged: int
    reward: float | None
    """Mean over the judged rollouts; None if there are none."""
    tokens: float
    values: Mapping[str, float]
    """Statistic → mean; empty if none was asked for."""


class _Sums:
    __slots__ = ("counts", "judged", "reward", "rollouts", "tokens", "values")

    def __init__(self) -> None:
        self.rollouts = self.judged = self.tokens = 0
        self.reward = 0.0
        self.values: defaultdict[str, float] = defaultdict(float)
        self.counts: Counter[str] = Counter()


def read_steps(run: Path, stage: str, *, statistics: Sequence[Statistic] = ()) -> list[Step]:
    """One record per training step, in order; empty without rollouts.

    Args:
        statistics: statistics to compute of the responses; images are read from the training's folder.
    """
    images = ResponseImages(run / stage / IMAGES)
    sums: dict[int, _Sums] = {}
    columns = ["step", "tokens", "reward", *(["response", "response_type"] if statistics else [])]
    for row in table_rows(run / stage / "rollouts", columns):
        step = sums.setdefault(row["step"], _Sums())
        step.rollouts += 1
        step.tokens += row["tokens"]
        for statistic in statistics:
            value = statistic.measure(images.read(response_of(row)), row["tokens"])
            if not math.isnan(value):  # of an image that no decoder reads
                step.values[statistic.name] += value
                step.counts[statistic.name] += 1
        if row["reward"] is not None:
            step.judged += 1
            step.reward += row["reward"]
    return [
        Step(
            step=number,
            rollouts=total.rollouts,
            unjudged=total.rollouts - total.judged,
            reward=total.reward / total.judged if total.judged else None,
            tokens=total.tokens / total.rollouts,
            values={name: value / total.counts[name] for name, value in total.values.items()},
        )
        for number, total in sorted(sums.items())
    ]


def training(
    run: RunFolder,
    *,
    noun: str = "response",
    statistics: Mapping[str, Statistic] | None = None,
    measured: Mapping[str, str] | None = None,
    note: str = "",
) -> Block:
    """Curves of the policy trainings over their steps.

    Args:
        noun: a response in the words of the page.
        statistics: title of a curve → statistic of the responses.
        measured: title of a curve → field that the training wrote for every step.
        note: what the curves mean.
    """
    names, titles = run.trainings or {run.stage: ""}, statistics or {}
    steps = {stage: read_steps(run.path, stage, statistics=list(titles.values())) for stage in names}
    marks = [
        (float(alarm.step), f"alarm{f' in {name}' if name else ''}, step {alarm.step}")
        for stage, name in names.items()
        if (alarm := run.alarm(stage)) and alarm.step is not None
    ]
    kinds = {stage: (stage.removeprefix("train_") if name else "policy", name) for stage, name in names.items()}

    def chart(title: str, points: Mapping[str, list[tuple[float, float]]], **form: Any) -> SeriesChart | None:
        lines = [Series(*kinds[stage], of_stage) for stage, of_stage in points.items()]
        return series_chart(title, lines, marks=marks, smooth=True, **form)

    rewards = {
        stage: [(float(step.step), step.reward) for step in of if step.reward is not None]
        for stage, of in steps.items()
    }
    tokens = {stage: [(float(step.step), step.tokens) for step in of] for stage, of in steps.items()}
    charts = [chart("Reward", rewards, bounds=(0.0, 1.0)), chart(f"Tokens per {noun}", tokens, places=1)]
    for title, statistic in titles.items():
        values = {
            stage: [(float(step.step), step.values[statistic.name]) for step in of if statistic.name in step.values]
            for stage, of in steps.items()
        }
        charts.append(chart(title, values))
    for title, name in (measured or {}).items():
        charts.append(chart(title, {stage: _measured(run.path / stage, name) for stage in names}))
    return training_block(run, steps, [chart for chart in charts if chart], note=note, statistics=titles)


def training_block(
    run: RunFolder,
    steps: Mapping[str, Sequence["Step"]],
    charts: Sequence[SeriesChart],
    *,
    note: str = "",
    statistics: Mapping[str, Statistic] | None = None,
    metrics: Mapping[str, float | None] | None = None,
    details: Mapping[str, Any] | None = None,
) -> Block:
    """The section around the curves: what they mean, what is missing, the figures by step.

    Args:
        steps: training → its steps.
    """
    names = run.trainings or {run.stage: ""}
    parts: list[Part] = []
    drawn = {stage: of for stage, of in steps.items() if of}
    for stage, of in drawn.items():
        if sentence := _reward_sentence(of):
            parts.append(Text(f"{names[stage] + ': ' if names[stage] else ''}{sentence}"))
    if charts:
        parts += [
            Charts(charts, "charts" if len(charts) > 2 else "multiples two"),
            Text(f"{_SMOOTHED} {note}".strip(), "quiet"),
        ]
    for stage, of in drawn.items():
        unjudged, rollouts = sum(step.unjudged for step in of), sum(step.rollouts for step in of)
        if unjudged:
            whose = f"{names[stage]}'s " if names[stage] else ""
            parts.append(
                Text(
                    f"{whole(unjudged)} of {whose}{whole(rollouts)} rollouts could not be judged; they count as "
                    "neither good nor bad.",
                    "quiet",
                )
            )
        if unjudged == rollouts:
            parts.append(Text("No rollout has a reward: the judge answered none of them. See What failed.", "missing"))
    parts += [text for stage in drawn if (text := _watched(run, stage, names[stage]))]
    parts += [_missing(run, stage, names[stage]) for stage in names if stage not in drawn]
    for stage, of in drawn.items():
        title = f"Figures by step{f', {names[stage]}' if names[stage] else ''}"
        parts.append(Fold(title, [_step_table(of, statistics or {})]))
    last = steps.get(run.stage) or ()
    return Block(
        "training", "Training", parts, metrics={**_metrics(run, last), **(metrics or {})}, details=details or {}
    )


def _watched(run: RunFolder, stage: str, name: str) -> Text | None:
    """Outcome of an alarm that did not fire; a banner shows one that did."""
    outcome = read_outcome(run.path / stage)
    if outcome is None or outcome.has_fired:
        return None
    kind = "missing" if outcome.state == "too_short" else "quiet"
    return Text(f"The hacking alarm{f' of {name}' if name else ''}: {outcome}.", kind)


def _missing(run: RunFolder, stage: str, name: str) -> Text:
    """Reason why a training has no rollouts."""
    if losses := _losses(run.path / stage):
        return Text(f"Trained on references, without rewards, to a loss of {number(losses[-1][1])}.")
    of_policy = f"No rollouts of {name}" if name else "There are no rollouts"
    return Text(f"{of_policy}: the {stage} stage has not finished in this run.", "missing")


def _reward_sentence(steps: Sequence["Step"]) -> str:
    ends = _reward_ends(steps)
    if not ends:
        return ""
    return f"Over {whole(steps[-1].step)} steps the reward went from {number(ends[0])} to {number(ends[1])}."


def _reward_ends(steps: Sequence["Step"]) -> tuple[float, float] | None:
    """First and last value of the smoothed reward."""
    chart = curve("", [(float(step.step), step.reward) for step in steps if step.reward is not None])
    return (chart.lines[0].first, chart.lines[0].last) if chart else None


def _metrics(run: RunFolder, steps: Sequence["Step"]) -> dict[str, float | None]:
    alarm, ends = run.alarm(run.stage), _reward_ends(steps)
    rollouts = sum(step.rollouts for step in steps)
    return {
        "steps": steps[-1].step if steps else None,
        **({"reward_first": ends[0], "reward": ends[1]} if ends else {}),
        "unjudged": sum(step.unjudged for step in steps) / rollouts if rollouts else None,
        "tokens": steps[-1].tokens if steps else None,
        "alarm_step": alarm.step if alarm else None,
    }


def _step_table(steps: Sequence["Step"], statistics: Mapping[str, Statistic]) -> Table:
    """Evenly spaced steps, including the first and the last."""
    last = len(steps) - 1
    shown = steps if last < _MAX_STEPS else [steps[round(at * last / (_MAX_STEPS - 1))] for at in range(_MAX_STEPS)]
    return Table(
        ("Step", "Reward", "Tokens", *statistics, "Rollouts", "Not judged"),
        [
            (
                step.step,
                number(step.reward, 3),
                number(step.tokens, 1),
                *(number(step.values.get(statistic.name), 2) for statistic in statistics.values()),
                step.rollouts,
                step.unjudged,
            )
            for step in shown
        ],
    )


def _measured(stage: Path, name: str) -> list[tuple[float, float]]:
    """A field of the records that a training wrote for its steps; of scores of several samples, their mean."""
    file = stage / "steps.jsonl"
    records = [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []
    values = {record["step"]: record.get(name) for record in records}
    values |= {step: _mean_present(scores) for step, scores in values.items() if isinstance(scores, list)}
    return [(float(step), value) for step, value in values.items() if value is not None]


def _mean_present(scores: Sequence[float | None]) -> float | None:
    present = [score for score in scores if score is not None]
    return sum(present) / len(present) if present else None


def losses(run: RunFolder, charts: Mapping[str, Mapping[str, tuple[str, str]]] | None = None, note: str = "") -> Block:
    """Losses of supervised trainings.

    Args:
        charts: title of a chart → stage → kind and name of its line; by default one of the page's stage.
    """
    drawn: list[SeriesChart | None] = []
    for title, lines in (charts or {"Loss on the answers' tokens": {run.stage: ("policy", "")}}).items():
        series = [Series(kind, name, _losses(run.path / stage)) for stage, (kind, name) in lines.items()]
        top = max((loss for line in series for _, loss in line.points), default=0.0)
        drawn.append(series_chart(title, series, bounds=(0.0, top or 1.0), smooth=True))
    parts: list[Part] = []
    own = _losses(run.out)
    if own:
        parts.append(Text(f"The student learned for {whole(own[-1][0])} steps, to a loss of {number(own[-1][1])}."))
    elif (run.out / "model").is_symlink():
        parts.append(Text("The student is passed on as it is."))
    if shown := [chart for chart in drawn if chart]:
        parts += [Charts(shown, "multiples two"), *([Text(note, "quiet")] if note else [])]
    elif not parts:
        parts.append(Text("No loss was kept: the training has not finished in this run.", "missing"))
    metrics = {"loss_first": own[0][1], "loss": own[-1][1]} if own else {}
    return Block("training", "Training", parts, metrics=metrics)


def _losses(stage: Path) -> list[tuple[float, float]]:
    """(step, loss) of a supervised training, from the state in its last checkpoint."""
    if (checkpoint := last_checkpoint(stage)) is None:
        return []
    history = json.loads((checkpoint / "trainer_state.json").read_bytes())["log_history"]
    return [(float(record["step"]), float(record["loss"])) for record in history if "loss" in record]


def rollout_groups(run: RunFolder) -> Block | None:
    """Rollouts of one group at the first step and at the last, the best first."""
    steps = sorted({row["step"] for row in table_rows(run.out / "rollouts", ["step"])})
    if not steps:
        return None
    groups: dict[int, list[dict[str, Any]]] = {step: [] for step in {steps[0], steps[-1]}}
    for row in table_rows(run.out / "rollouts"):
        if row["step"] in groups and row["sample_id"] == (groups[row["step"]] or [row])[0]["sample_id"]:
            groups[row["step"]].append(row)
    samples = run.samples(rows[0]["sample_id"] for rows in groups.values())
    images = ResponseImages.of_table(run.out / "rollouts")
    cards = [
        _group(run, step, rows, samples.get(rows[0]["sample_id"]) or {}, images)
        for step, rows in sorted(groups.items())
    ]
    note = "The first group of either step, its best rollouts first."
    return Block("rollouts", "Rollouts of one group at the first step and at the last", [Cards(cards, note)])


def _group(
    run: RunFolder, step: int, rows: list[dict[str, Any]], sample: dict[str, Any], images: ResponseImages
) -> Card:
    best = sorted(rows, key=lambda row: math.inf if row["reward"] is None else -row["reward"])[:_ROLLOUT_COUNT]
    more = len(rows) - len(best)
    asked = sample.get("question") or (not sample.get("image") and sample.get("prompt"))
    return Card(
        rows[0]["sample_id"],
        run.picture(sample.get("image")),
        [_rollout(run, row, images) for row in best],
        lead=[Passage("Question" if sample["question"] else "Prompt", asked)] if asked else [],
        note=f"step {step}" + (f", {more} more rollouts" if more > 0 else ""),
    )


def _rollout(run: RunFolder, row: dict[str, Any], images: ResponseImages) -> Passage:
    name = "could not be judged" if row["reward"] is None else f"reward {number(row['reward'])}"
    return response_passage(run, Passage(name, "", f"{row['tokens']} tokens", "policy"), row, images)


def response_passage(run: RunFolder, passage: Passage, row: Mapping[str, Any], images: ResponseImages) -> Passage:
    """The passage with a row's response: its text, or the image, read from the images beside the table."""
    response = response_of(row)
    if response.text is not None:
        return passage._replace(text=response.text)
    try:
        image = images.read(response).image or b""
        check_image(image, response.media_type or "")
    except ValueError as error:  # missing, damaged, or no image at all: the page says so
        return passage._replace(text=f"This image cannot be shown: {error}")
    return passage._replace(image=run.picture(image))
