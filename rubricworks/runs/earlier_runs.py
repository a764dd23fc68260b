"""Earlier runs of a recipe and its arm, and what the newest of them spent, for the plan of the next one."""

from collections.abc import Iterator
from pathlib import Path

from rubricworks.data.ledger import LEDGER_FILE, last_change
from rubricworks.errors import UserError
from rubricworks.llm.spending import SPENDING_FILE, read_spending
from rubricworks.recipe import Recipe
from rubricworks.reports.formats import dollars
from rubricworks.strict_yaml import parse_yaml


def runs_of(recipe: Recipe, runs: Path) -> list[Path]:
    """Return the folders of the recipe's runs, the newest first."""
    own = [ledger.parent for ledger in runs.glob(f"*/{LEDGER_FILE}") if _is_of(recipe, ledger.parent)]
    return sorted(own, key=last_change, reverse=True)


def spent_lines(recipe: Recipe, runs: Path) -> Iterator[str]:
    """Yield a line with what the newest finished run of the recipe spent; none without such a run.

    A plan counts every call at its longest. A run stops calls early, and takes repeated ones from its cache.

    Args:
        runs: folder of the earlier runs.
    """
    for run in runs_of(recipe, runs):
        if not (run / "outcome.json").is_file():
            continue
        try:
            rows = read_spending(run / SPENDING_FILE)
        except UserError:
            continue
        if not rows:
            continue
        calls, cached, read, written = (
            sum(row[name] for row in rows) for name in ("calls", "cached", "prompt_tokens", "completion_tokens")
        )
        yield (
            f"used by the newest finished run, {run.name}: {read:,} tokens in and {written:,} out in {calls:,} calls "
            f"({cached:,} from its cache), {dollars(sum(row['cost'] for row in rows))}"
        )
        return


def _is_of(recipe: Recipe, run: Path) -> bool:
    """Return True if a run is one of this recipe, and of this arm."""
    try:
        stored = parse_yaml((run / "recipe.yaml").read_text()).value
    except (OSError, ValueError):
        return False
    return isinstance(stored, dict) and (stored.get("name"), stored.get("arm")) == (recipe.name, recipe.arm)
