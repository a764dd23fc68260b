"""Results of the two arms: benchmarks with paired differences, captions by captioner, losses."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from rubricworks.evaluation.scoreboard import BASE, POLICY
from rubricworks.metrics import Interval, mean_interval, paired_differences
from rubricworks.reports.comparison import Comparison
from rubricworks.reports.formats import number
from rubricworks.reports.headline import Headline, is_small
from rubricworks.reports.run_folder import table_rows
from rubricworks.reports.samples import data_uri, draw_samples, sample_rows
from rubricworks.reports.scores import score_rows
from rubricworks.reports.series_charts import Series, SeriesChart, series_chart
from rubricworks.training.checkpoints import last_checkpoint

ARMS = {POLICY: ("pretrain_vlm", "tune_vlm"), BASE: ("pretrain_baseline", "tune_baseline")}
"""Arm → its stages 1.5 and 2."""


class BenchmarkResult(NamedTuple):
    """Share of right answers of both arms on one benchmark, and their paired difference."""

    comparison: Comparison
    difference: Interval | None


class CaptionerSummary(NamedTuple):
    name: str
    captions: int
    words: float
    """Per caption."""
    arm: str
    """Arm that is pretrained on them; empty if none is."""


class CaptionPair(NamedTuple):
    uri: str
    """Data URI of the image."""
    captions: list[tuple[str, str]]
    """Captioner and caption."""


def benchmark_results(run: Path) -> list[BenchmarkResult]:
    """Benchmarks in alphabetical order, then all questions, each benchmark with equal weight."""
    tasks = {row["sample_id"]: row["task"] or "" for row in _rows(run / "benchmark_questions", ["sample_id", "task"])}
    values: dict[str, dict[str, dict[str, float | None]]] = defaultdict(lambda: defaultdict(dict))
    for row in score_rows(run, ["sample_id", "model", "scorer", "value"]):
        if row["scorer"] == "answers":
            values[tasks.get(row["sample_id"], "")][row["model"]][row["sample_id"]] = row["value"]
    results = [_result(task, values[task]) for task in sorted(values)]
    return [one for one in results if one.comparison.base or one.comparison.policy]


def _result(task: str, by_model: dict[str, dict[str, float | None]]) -> BenchmarkResult:
    base, policy = by_model[BASE], by_model[POLICY]
    means = [mean_interval(values.values()) if values else None for values in (base, policy)]
    difference = mean_interval(paired_differences(policy, base).values(), share=False)
    return BenchmarkResult(Comparison(task, *means), difference)


def headline(overall: Interval | None, policy: str, baseline: str) -> Headline:
    """Say whether the policy's captions pretrain the better model.

    Args:
        overall: macro difference of the two arms.
    """
    if overall is None:
        return Headline("The two models have not been compared.", "open")
    points = f"{number(100 * overall.value, 1)} points [{number(100 * (overall.low or 0), 1)}, " + (
        f"{number(100 * (overall.high or 0), 1)}]"
    )
    if is_small(overall):
        return Headline(f"Too few questions to tell: {points}.", "open")
    if overall.lies_above(0):
        return Headline(f"Captions by {policy} pretrain a better model than those by {baseline}: {points}.", "good")
    if overall.lies_below(0):
        return Headline(f"Captions by {policy} pretrain a worse model than those by {baseline}: {points}.", "bad")
    return Headline(f"No clear difference of {policy} from {baseline}: {points}, which chance could explain.", "open")


def captioner_summaries(run: Path, arms: dict[str, str]) -> list[CaptionerSummary]:
    """Captions by captioner.

    Args:
        arms: captioner → arm.
    """
    counts: dict[str, list[int]] = {}
    for row in _rows(run / "recaption", ["captioner", "caption"]):
        count = counts.setdefault(row["captioner"], [0, 0])
        count[0] += 1
        count[1] += len(row["caption"].split())
    return [CaptionerSummary(name, n, words / n, arms.get(name, "")) for name, (n, words) in counts.items()]


def caption_pairs(run: Path, count: int, seed: int) -> list[CaptionPair]:
    """Images with the captions of every captioner, drawn by a hash and not selected."""
    captions: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for row in _rows(run / "recaption", ["sample_id", "captioner", "caption"]):
        captions[row["sample_id"]].append((row["captioner"], row["caption"]))
    ids = draw_samples(captions, count, seed)
    images = sample_rows(run / "prepare", set(ids), ["image"])
    return [
        CaptionPair(data_uri(images[one]["image"]), captions[one]) for one in ids if images.get(one, {}).get("image")
    ]


def loss_charts(run: Path) -> list[SeriesChart]:
    """Training loss of stages 1.5 and 2, both arms in each."""
    charts = []
    for number_, title in enumerate(("Loss in stage 1.5, captions", "Loss in stage 2, instructions")):
        lines = [
            Series(kind, name, _losses(run / ARMS[arm][number_]))
            for arm, kind, name in ((BASE, "base", "baseline"), (POLICY, "policy", "policy"))
        ]
        top = max((loss for line in lines for _, loss in line.points), default=0.0)
        charts.append(series_chart(title, lines, bounds=(0.0, top or 1.0), smooth=True))
    return [chart for chart in charts if chart]


def _losses(stage: Path) -> list[tuple[float, float]]:
    if (checkpoint := last_checkpoint(stage)) is None:
        return []
    history = json.loads((checkpoint / "trainer_state.json").read_text())["log_history"]
    return [(float(line["step"]), float(line["loss"])) for line in history if "loss" in line]


def _rows(table: Path, columns: list[str]) -> list[dict[str, Any]]:
    return list(table_rows(table, columns))
