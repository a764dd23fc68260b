"""Results of finished runs: the scores of their arms, one file for each run and seed.

A file is written whole, with the digests of the registration and of the run's settings. Results of another registration
or of other settings are refused, never mixed.
"""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from rubricworks.claims.inference import ArmScores
from rubricworks.claims.registration import Registration
from rubricworks.errors import UserError
from rubricworks.storage import write_atomic


class RunResult(BaseModel):
    """What the claims and gates read of one run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    registration: str
    """Digest of the registration."""
    settings: str
    """Digest of the recipe without its seed."""
    version: str
    """Version of rubricworks."""
    run: str
    """`own`, or the name of the arm."""
    seed: int
    arms: dict[str, dict[str, dict[str, float | None]]]
    """Arm → metric → sample → value."""
    readings: dict[str, float] = {}
    """Gate → its number in this run."""
    cpu_seconds: float
    """Of this process and of the world's server."""


class ResultFolder:
    """The stored results of one registration."""

    def __init__(self, folder: Path, registration: Registration) -> None:
        self.folder, self.registration = folder, registration

    def path(self, run: str, seed: int) -> Path:
        return self.folder / f"seed-{seed}" / f"{run}.json"

    def save(self, result: RunResult) -> None:
        path = self.path(result.run, result.seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, result.model_dump_json().encode())

    def load(self, run: str, seed: int, settings: str | None = None) -> RunResult | None:
        """Read a result; None if there is none.

        Args:
            settings: digest that the run has today; by default any.
        Raises:
            UserError: the file is damaged, or of another registration or other settings.
        """
        path = self.path(run, seed)
        if not path.is_file():
            return None
        try:
            result = RunResult.model_validate_json(path.read_bytes())
        except ValidationError as error:
            raise UserError(f"{path}: damaged; delete it, and give the same command again") from error
        if result.registration != self.registration.digest:
            raise UserError(
                f"{path}: measured under the registration {result.registration}, and today's is "
                f"{self.registration.digest}; take another folder with --results, or check out that registration"
            )
        if settings is not None and result.settings != settings:
            raise UserError(
                f"{path}: measured with other settings of the recipe ({result.settings}, today {settings}); take "
                "another folder with --results"
            )
        return result

    def results(self) -> list[RunResult]:
        """All results, by seed and run."""
        names = sorted((int(path.parent.name.removeprefix("seed-")), path.stem) for path in self._files())
        loaded = [self.load(run, seed) for seed, run in names]
        return [result for result in loaded if result is not None]

    def _files(self) -> list[Path]:
        return [path for path in self.folder.glob("seed-*/*.json") if path.parent.name[5:].isdecimal()]


def scores_by_seed(results: list[RunResult]) -> dict[int, ArmScores]:
    """Seed → scores of all arms of its runs."""
    scores: dict[int, dict[str, Any]] = {}
    for result in results:
        scores.setdefault(result.seed, {}).update(result.arms)
    return dict(scores)
