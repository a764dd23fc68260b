"""Runs that belong together: for each seed a recipe's own, and its arms, which wait for that one and share its work."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple


class PlannedRun(NamedTuple):
    """One run as a user would make it with `rubricworks run`; whether it is there already, its folder tells."""

    called: str
    """In lines of progress: `seed 1`, or `seed 1, no_recall`."""
    folder: Path
    recipe: str
    """Name or file."""
    overrides: tuple[str, ...]
    """`a.b=c` each, the same for all that are compared."""
    seed: int
    finished: Callable[[Path], bool]
    """Whether a run's folder holds all that is compared; its page may still be missing."""
    arm: str | None = None
    after: Path | None = None
    """The run that must be finished first, and from which this one takes what is made from the same."""

    @property
    def is_finished(self) -> bool:
        return self.finished(self.folder)

    @property
    def changes(self) -> list[str]:
        """What it changes in the recipe or its arm."""
        return [*self.overrides, f"seed={self.seed}"]

    @property
    def log(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.log")

    def arguments(self) -> list[str]:
        """What follows `rubricworks`: a new run, or the rest of one that was stopped."""
        runs = ["--runs", str(self.folder.parent)]
        if (self.folder / "recipe.yaml").is_file():
            return ["run", *runs, "--resume", self.folder.name]
        arm = ["--arm", self.arm] if self.arm else []
        reuse = ["--reuse", self.after.name] if self.after else []
        changes = [word for one in self.changes for word in ("--set", one)]
        return ["run", self.recipe, *runs, "--run", self.folder.name, *arm, *reuse, *changes]


def plan_runs(
    recipe: str,
    runs: Path,
    seeds: Sequence[int],
    overrides: Sequence[str],
    *,
    finished: Callable[[Path], bool],
    arms: Sequence[str] = (),
) -> list[PlannedRun]:
    """`seed-1` for each seed and `seed-1-ARM` for each of its arms, a seed's own first.

    Args:
        runs: folder of all runs.
        overrides: `a.b=c` each.
    """
    planned = []
    for seed in seeds:
        base = runs / f"seed-{seed}"
        planned.append(PlannedRun(f"seed {seed}", base, recipe, tuple(overrides), seed, finished))
        planned += [
            PlannedRun(
                f"seed {seed}, {arm}", runs / f"seed-{seed}-{arm}", recipe, tuple(overrides), seed, finished, arm, base
            )
            for arm in arms
        ]
    return planned
