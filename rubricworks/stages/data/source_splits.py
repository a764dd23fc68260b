"""Which part of a source is held out, warms up and is trained on: drawn by a hash of names, never by their order."""

import hashlib
from collections import Counter
from collections.abc import Iterable

from rubricworks.data.sources import KINDS
from rubricworks.data.tables import count_rows, read_rows
from rubricworks.errors import UserError
from rubricworks.runtime.job import Job


def in_drawn_order(names: Iterable[str], seed: int) -> list[str]:
    """The names in an order that depends on the seed and on themselves alone."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{seed}:{name}".encode()).digest())


def as_written(place: str, recipe: str, source: str) -> str:
    """With the recipe's variables, so that the table does not depend on where a folder lies today."""
    for kind in KINDS:
        recipe, source = recipe.removeprefix(f"{kind}:"), source.removeprefix(f"{kind}:")
    return recipe + place.removeprefix(source) if place.startswith(source) else place


def check_splits(job: Job, source: str, unit: str) -> None:
    """See that the job's table `samples` has something to train on and something to evaluate on.

    Args:
        unit: what the source holds, for the message: "images".
    Raises:
        UserError: it has not; the job is void.
    """
    rejected = count_rows(job.out / "rejected")
    kept = Counter(row["split"] for row in read_rows(job.out, columns=["split"]))
    job.figures.update(samples=kept.total(), rejected=rejected)
    if not kept["train"] or not kept["held_out"]:
        job.mark_unusable()
        reasons = "; ".join(f"{row['source']}: {row['reason']}" for row in list(read_rows(job.out / "rejected"))[:3])
        raise UserError(
            f"{source}: {kept['train']} {unit} to train on and {kept['held_out']} held out are usable, "
            f"at least one of each is needed{f' (rejected {rejected}: {reasons})' if rejected else ''}"
        )
