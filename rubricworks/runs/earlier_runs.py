"""Earlier runs of a recipe and its arm, and what comparable finished runs spent, for the plan of the next one."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rubricworks.claims.settings import differences
from rubricworks.data.ledger import LEDGER_FILE, last_change
from rubricworks.errors import UserError
from rubricworks.llm.spending import SPENDING_FILE, read_spending
from rubricworks.recipe import Recipe
from rubricworks.recipe.estimate import estimate_calls, planned_items
from rubricworks.recipe.files import load_recipe
from rubricworks.reports.formats import counted, dollars
from rubricworks.runs.records import OUTCOME
from rubricworks.strict_yaml import parse_yaml

_FIELDS_SHOWN = 6
_NO_DIFFERENCE = {"name", "description", "tracking", "budget", "prices", "cluster", "arms"}
"""Sections that change no request."""


class EarlierRun(NamedTuple):
    """A finished run that asked the same models for the same things."""

    recipe: Recipe
    spending: list[dict[str, Any]]

    def sum(self, column: str) -> float:
        return sum(row[column] for row in self.spending)

    @property
    def unpriced(self) -> set[str]:
        """Models that were sent tokens and cost nothing: their price is not known."""
        return {row["model"] for row in self.spending if row["prompt_tokens"] and not row["cost"]}


def runs_of(recipe: Recipe, runs: Path) -> list[Path]:
    """Return the folders of the recipe's runs, the newest first."""
    own = [ledger.parent for ledger in runs.glob(f"*/{LEDGER_FILE}") if _is_of(recipe, ledger.parent)]
    return sorted(own, key=last_change, reverse=True)


def spent_lines(recipe: Recipe, runs: Path) -> Iterator[str]:
    """Yield lines with the least and the most that comparable finished runs spent; none without such a run.

    A plan counts every call at its longest. A run stops calls early, and takes repeated ones from its cache.

    Args:
        runs: folder of the earlier runs.
    """
    earlier = comparable_runs(recipe, runs)
    if not earlier:
        return
    read, written, calls, cached = (
        _range([run.sum(column) for run in earlier])
        for column in ("prompt_tokens", "completion_tokens", "calls", "cached")
    )
    yield (
        f"used by {counted(len(earlier), 'comparable finished run')}: {read} tokens in and {written} out "
        f"in {calls} calls ({cached} from the cache), {_dollars(recipe, earlier)}"
    )
    if fields := _differing_fields(recipe, earlier):
        more = f" and {len(fields) - _FIELDS_SHOWN} more" if len(fields) > _FIELDS_SHOWN else ""
        yield f"  set otherwise in {'it' if len(earlier) == 1 else 'some'}: {', '.join(fields[:_FIELDS_SHOWN])}{more}"


def comparable_runs(recipe: Recipe, runs: Path) -> list[EarlierRun]:
    """Return finished runs of the same pipeline and arm that asked the planned models for the planned things."""
    try:
        planned = {
            (call.stage, call.purpose, call.endpoint.model) for call in estimate_calls(recipe, planned_items(recipe))
        }
    except UserError:  # nothing is planned of a retraining, nor without images
        return []
    comparable = []
    for outcome in sorted(runs.glob(f"*/{OUTCOME}")):
        try:
            stored = load_recipe(outcome.parent / "recipe.yaml")
            rows = read_spending(outcome.parent / SPENDING_FILE)
        except (OSError, UserError):
            continue
        asked = {(row["stage"], row["purpose"], row["model"]) for row in rows}
        if rows and (stored.pipeline, stored.arm) == (recipe.pipeline, recipe.arm) and planned <= asked:
            comparable.append(EarlierRun(stored, rows))
    return comparable


def _range(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"


def _dollars(recipe: Recipe, earlier: Sequence[EarlierRun]) -> str:
    unpriced = sorted(set().union(*(run.unpriced for run in earlier)))
    low, high = (bound(run.sum("cost") for run in earlier) for bound in (min, max))
    cost = dollars(low) if low == high else f"{dollars(low)} to {dollars(high)}"
    if not unpriced or recipe.world:
        return cost
    missing = f"no price is known of {', '.join(unpriced)}"
    return f"at least {cost}: {missing}" if high else f"dollars not known: {missing}"


def _differing_fields(recipe: Recipe, earlier: Sequence[EarlierRun]) -> list[str]:
    """Fields of the recipe that one of the runs had other values for; addresses change no request."""
    own = _settings(recipe)
    return sorted({line.partition(":")[0] for run in earlier for line in differences(_settings(run.recipe), own)})


def _settings(recipe: Recipe) -> dict[str, Any]:
    settings = _without_addresses(recipe.model_dump(mode="json", exclude=_NO_DIFFERENCE))
    assert isinstance(settings, dict)
    return settings


def _without_addresses(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_addresses(inner) for key, inner in value.items() if key != "url"}
    return [_without_addresses(inner) for inner in value] if isinstance(value, list) else value


def _is_of(recipe: Recipe, run: Path) -> bool:
    """Return True if a run is one of this recipe, and of this arm."""
    try:
        stored = parse_yaml((run / "recipe.yaml").read_text()).value
    except (OSError, ValueError):
        return False
    return isinstance(stored, dict) and (stored.get("name"), stored.get("arm")) == (recipe.name, recipe.arm)
