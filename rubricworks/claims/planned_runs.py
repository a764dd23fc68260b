"""The plan of a comparison: for each seed a run of the recipe, and runs of its arms, which reuse stages of that one."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from rubricworks.recipe.files import load_recipe, recipe_path


class PlannedRun(NamedTuple):
    """One run, as `rubricworks run` makes it; its folder tells whether it is finished."""

    label: str
    """Name in lines of progress: `seed 1`, or `seed 1, no_recall`."""
    folder: Path
    recipe: str
    """Its name or file."""
    overrides: tuple[str, ...]
    """`a.b=c` each, the same for all runs of an arm."""
    seed: int
    folder_is_finished: Callable[[Path], bool]
    """Test of a run's folder: it holds all that is compared; its page may still be missing."""
    arm: str | None = None
    base_run: Path | None = None
    """Folder of the run that must be finished first, and whose stages this one reuses."""

    @property
    def is_finished(self) -> bool:
        return self.folder_is_finished(self.folder)

    @property
    def changes(self) -> list[str]:
        """Overrides of the recipe, the seed among them."""
        return [*self.overrides, f"seed={self.seed}"]

    @property
    def log(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.log")

    def arguments(self) -> list[str]:
        """Arguments of `rubricworks`: for a new run, or to resume one that was stopped."""
        runs = ["--runs", str(self.folder.parent)]
        if (self.folder / "recipe.yaml").is_file():
            return ["run", *runs, "--resume", self.folder.name]
        arm = ["--arm", self.arm] if self.arm else []
        reuse = ["--reuse", self.base_run.name] if self.base_run else []
        changes = [word for change in self.changes for word in ("--set", change)]
        return ["run", self.recipe, *runs, "--run", self.folder.name, *arm, *reuse, *changes]


def plan_runs(
    recipe: str,
    runs: Path,
    seeds: Sequence[int],
    overrides: Sequence[str],
    *,
    is_finished: Callable[[Path], bool],
    arms: Sequence[str] = (),
    settings: Sequence[str] = (),
) -> list[PlannedRun]:
    """Plan `seed-N` for each seed and `seed-N-ARM` for each of its arms, a seed's own run first.

    Args:
        runs: folder of all runs.
        overrides: `a.b=c` each.
        is_finished: test of a run's folder.
        settings: overrides before those, which an arm that sets such a field goes without.
    """
    fields = load_recipe(recipe_path(recipe)).arms if arms and settings else {}
    planned = []
    for seed in seeds:
        base = runs / f"seed-{seed}"
        planned.append(PlannedRun(f"seed {seed}", base, recipe, (*settings, *overrides), seed, is_finished))
        planned += [
            PlannedRun(
                f"seed {seed}, {arm}",
                runs / f"seed-{seed}-{arm}",
                recipe,
                (*(setting for setting in settings if not overlaps(setting, fields[arm])), *overrides),
                seed,
                is_finished,
                arm,
                base,
            )
            for arm in arms
        ]
    return planned


def overlaps(override: str, fields: Iterable[str]) -> str | None:
    """Field of an arm that an override changes, or a part of which it changes."""
    key = f"{override.partition('=')[0].strip()}."
    return next((field for field in fields if f"{field}.".startswith(key) or key.startswith(f"{field}.")), None)
