"""Answers, hours and dollars of an evaluation's benchmarks, as ranges: for `--dry-run`.

The number of answers is known. Their length is not: it lies between the one that was measured before, or a few words,
and the tasks' limits. Hours follow from the tokens per second of an earlier evaluation of the same base model on this
machine; without one they are unknown.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rubricworks.data.ledger import LEDGER_FILE, last_change
from rubricworks.errors import UserError
from rubricworks.evaluation.scorers.benchmark import BenchmarkScorer
from rubricworks.evaluation.scorers.scorer import SPEEDS, BenchmarkSpeed, Workload
from rubricworks.llm import Endpoint
from rubricworks.llm.image_tokens import image_tokens
from rubricworks.recipe.files import load_recipe
from rubricworks.recipe.recipe import Recipe
from rubricworks.stages.evaluation.score_config import Evaluation, TextEvaluation

_FEW_WORDS = 16
"""Tokens of a short answer."""
_QUESTION = 150
"""Tokens of a question without its image."""


class Speeds(NamedTuple):
    """Speeds that one run measured."""

    run: str
    measured: tuple[BenchmarkSpeed, ...]

    @property
    def tokens_per_second(self) -> float:
        return sum(speed.tokens for speed in self.measured) / sum(speed.seconds for speed in self.measured)

    def tokens_per_answer(self, benchmarks: str) -> float:
        """Mean length of the answers to a set, or to all that were measured."""
        same = [speed for speed in self.measured if speed.set == benchmarks] or self.measured
        return sum(speed.tokens for speed in same) / sum(speed.answers for speed in same)


def measured_speeds(runs: Path, recipe: Recipe) -> Speeds | None:
    """Speeds of the last run of the same base model, or, where a recipe has none, of the same recipe."""
    ledgers = sorted(runs.glob(f"*/{LEDGER_FILE}"), key=lambda path: last_change(path.parent), reverse=True)
    for ledger in ledgers:
        speeds = _speeds_in(ledger)
        if speeds and _is_of_same_model(ledger.with_name("recipe.yaml"), recipe):
            return Speeds(ledger.parent.name, speeds)
    return None


def _speeds_in(ledger: Path) -> tuple[BenchmarkSpeed, ...]:
    try:
        lines = [json.loads(line) for line in ledger.read_text().splitlines()]
        speeds = [BenchmarkSpeed(*speed) for line in lines for speed in line.get(SPEEDS, ())]
        return tuple(speed for speed in speeds if min(speed[1:]) > 0)
    except (OSError, ValueError, TypeError, AttributeError):  # another program's, or cut off
        return ()


def _is_of_same_model(path: Path, recipe: Recipe) -> bool:
    try:
        other = load_recipe(path)
    except (UserError, OSError):
        return False
    if recipe.base_model is None:
        return other.name == recipe.name
    return other.base_model == recipe.base_model


def benchmark_lines(recipe: Recipe, items: int, speeds: Speeds | None, gpu_hour: float | None) -> Iterator[str]:
    """Yield the plan's lines about benchmarks; none if the evaluation has no benchmarks.

    Args:
        items: images in the source, or questions.
        gpu_hour: dollars of one accelerator for an hour.
    """
    evaluation = next((config for config in recipe.stage_configs().values() if isinstance(config, Evaluation)), None)
    if not isinstance(evaluation, TextEvaluation):
        return
    here, endpoints = _models(evaluation, recipe.scored_models(items))
    for benchmarks in evaluation.scorers.benchmarks:
        yield from _lines_of_set(benchmarks, evaluation, here, endpoints, speeds, gpu_hour)


def _models(evaluation: TextEvaluation, own: int) -> tuple[int, list[Endpoint]]:
    """Number of models that are served here, each milestone and decoding by itself, and the endpoints."""
    folders = [source for source in evaluation.models.values() if source.folder]
    here = (own + len(folders)) * len(evaluation.decodings)
    return here, [source.endpoint for source in evaluation.models.values() if source.endpoint]


def _lines_of_set(
    benchmarks: BenchmarkScorer,
    evaluation: TextEvaluation,
    here: int,
    endpoints: Sequence[Endpoint],
    speeds: Speeds | None,
    gpu_hour: float | None,
) -> Iterator[str]:
    models = here + len(endpoints)
    try:
        planned = benchmarks.planned_answers()
    except UserError as error:
        yield f"benchmarks {benchmarks.set}: {error}"
        return
    questions = sum(count for count, _ in planned)
    at_most = sum(count * limit for count, limit in planned)
    answers = f"{models * questions:,} answers, of at most {max(limit for _, limit in planned):,} tokens each"
    yield f"benchmarks {benchmarks.set}: {len(planned)} tasks x {models} models, {answers}"
    length = speeds.tokens_per_answer(benchmarks.set) if speeds else _FEW_WORDS
    at_least = min(at_most, questions * length)
    dollars = [0.0, 0.0]
    unpriced = []
    if here:
        if speeds is None:
            yield (
                "  hours: not known; no run here has measured how fast the model answers: run it with `limit` on its "
                "benchmarks first"
            )
            unpriced.append("accelerators")
        else:
            hours = [here * tokens / speeds.tokens_per_second / 3_600 for tokens in (at_least, at_most)]
            rate = f"{speeds.tokens_per_second:,.0f} tokens a second, as in {speeds.run}"
            yield f"  hours: {_number(hours[0])} to {_number(hours[1])}, at {rate}"
            if gpu_hour is None:
                unpriced.append("accelerators (--gpu-hour)")
            else:
                price = gpu_hour * evaluation.engine.tensor_parallel
                dollars = [sum_ + price * spent for sum_, spent in zip(dollars, hours, strict=True)]
    for endpoint in endpoints:
        read = questions * (image_tokens(endpoint) + _QUESTION)
        costs = (endpoint.cost(read, round(at_least)), endpoint.cost(read, at_most))
        dollars = [sum_ + cost for sum_, cost in zip(dollars, costs, strict=True)]
        unpriced += [] if endpoint.is_priced else [endpoint.model]
    for calls in benchmarks.plan(Workload(0, 0, models)):
        each = calls.endpoint.cost(calls.tokens_in, calls.tokens_out)
        dollars = [dollars[0] + calls.count * each, dollars[1] + models * questions * each]
        unpriced += [] if calls.endpoint.is_priced else [calls.endpoint.model]
    missing = ", ".join(dict.fromkeys(unpriced))
    if not any(dollars):
        yield f"  dollars: not known without the price of {missing}" if missing else "  dollars: none"
    else:
        without = f", without {missing}" if missing else ""
        yield f"  dollars: {dollars[0]:,.2f} to {dollars[1]:,.2f}{without}"


def _number(hours: float) -> str:
    return f"{hours:,.1f}" if hours < 100 else f"{hours:,.0f}"
