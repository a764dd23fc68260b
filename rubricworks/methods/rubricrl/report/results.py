"""Held-out results for the page: headline, GenEval by task, criteria met by rubric key."""

from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from rubricworks.evaluation.scoreboard import BASE, POLICY, Scoreboard
from rubricworks.metrics import mean_interval
from rubricworks.reports.comparison import Comparison
from rubricworks.reports.formats import number
from rubricworks.reports.headline import Headline, is_small
from rubricworks.reports.run_folder import table_rows
from rubricworks.reports.scores import score_rows
from rubricworks.rubrics import Rubric, Scorecard

OVERALL = "geneval_correct"


class TaskResult(NamedTuple):
    """Share of correct images of one task."""

    task: str
    comparison: Comparison


class KeyRate(NamedTuple):
    """Share of met criteria of one rubric key."""

    key: str
    criteria: int
    base: float | None
    policy: float | None


def task_results(run: Path, board: Scoreboard | None) -> list[TaskResult]:
    """GenEval by task, tasks in alphabetical order; none without an evaluation by it."""
    if board is None:
        return []
    tasks = {row["sample_id"]: row["task"] or "" for row in table_rows(run / "prepare_prompts", ["sample_id", "task"])}
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in score_rows(run, ["sample_id", "model", "decoding", "scorer", "part", "value"]):
        if row["scorer"] == "geneval" and row["decoding"] == board.decoding and row["value"] is not None:
            values[tasks.get(row["sample_id"], ""), row["model"]].append(row["value"])
    results = []
    for task in sorted({task for task, _ in values}):
        means = [
            mean_interval(values[task, model], share=True) if values[task, model] else None for model in (BASE, POLICY)
        ]
        results.append(TaskResult(task, Comparison(task.replace("_", " "), *means)))
    return results


def key_rates(run: Path, board: Scoreboard | None) -> list[KeyRate]:
    """Criteria met by rubric key, the most frequent key first."""
    if board is None:
        return []
    keys = {
        (row["sample_id"], criterion.criterion): criterion.key
        for row in table_rows(run / "write_prompt_rubrics", ["sample_id", "rubric"])
        for criterion in Rubric.model_validate_json(row["rubric"]).criteria
    }
    credits: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in score_rows(run):
        if row["scorer"] == "rubric" and row["decoding"] == board.decoding and row["evidence"]:
            scorecard = Scorecard.model_validate_json(row["evidence"])
            for verdict in scorecard.verdicts:
                if verdict.credit is not None and (key := keys.get((scorecard.sample_id, verdict.criterion))):
                    credits[key][row["model"]].append(verdict.credit)
    rates = [
        KeyRate(
            key, len(by_model[POLICY]), *(fmean(by_model[one]) if by_model[one] else None for one in (BASE, POLICY))
        )
        for key, by_model in credits.items()
    ]
    return sorted(rates, key=lambda rate: (-rate.criteria, rate.key))


def _mean(credits: list[float]) -> float | None:
    return fmean(credits) if credits else None


def headline(board: Scoreboard | None) -> Headline:
    """Say whether the trained generator draws its prompts better than its base."""
    gain = board.gain(POLICY, OVERALL) if board else None
    if gain is None:
        return Headline("The trained generator has not been compared with its base model.", "open")
    points = f"{number(gain.value)} [{number(gain.low)}, {number(gain.high)}]"
    if is_small(gain):
        return Headline(f"Too few images to tell: GenEval changes by {points}.", "open")
    if gain.lies_above(0):
        return Headline(f"The trained generator draws its prompts better: GenEval rises by {points}.", "good")
    if gain.lies_below(0):
        return Headline(f"The trained generator draws its prompts worse: GenEval changes by {points}.", "bad")
    return Headline(f"No clear difference: GenEval changes by {points}, which chance could explain.", "open")
