"""Splits of a source into held-out, warm-up and training samples, drawn by a hash of names, never by their order."""

import hashlib
import warnings
from collections import Counter
from collections.abc import Iterable
from itertools import islice

from rubricworks.data.sources import KINDS
from rubricworks.data.tables import count_rows, read_rows
from rubricworks.errors import UserError
from rubricworks.runtime.job import Job


def hash_order(names: Iterable[str], seed: int) -> list[str]:
    """Sort the names by a seeded hash, a shuffle that depends only on the seed and the names."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{seed}:{name}".encode()).digest())


def recipe_path(place: str, recipe: str, source: str) -> str:
    """Replace the resolved source in a path by the recipe's own spelling, so that tables do not depend on the machine.

    Args:
        place: path of an entry below `source`.
        recipe: the source as the recipe has it, with variables.
        source: the source on this machine.
    """
    for kind in KINDS:
        recipe, source = recipe.removeprefix(f"{kind}:"), source.removeprefix(f"{kind}:")
    return recipe + place.removeprefix(source) if place.startswith(source) else place


def check_splits(job: Job, source: str, unit: str, *, held_out: bool = True) -> None:
    """Check that the job's table `samples` has rows to train on and rows to evaluate on; warn of what was rejected.

    Args:
        unit: plural noun for the message, such as "images".
        held_out: True if rows to evaluate on are needed.
    Raises:
        UserError: one of the splits is empty; the job is marked unusable.
    """
    rejected = count_rows(job.out / "rejected")
    counts = Counter(row["split"] for row in read_rows(job.out, columns=["split"]))
    job.figures.update(samples=counts.total(), rejected=rejected)
    reasons = "; ".join(f"{row['source']}: {row['reason']}" for row in islice(read_rows(job.out / "rejected"), 3))
    if not counts["train"] or (held_out and not counts["held_out"]):
        job.mark_unusable()
        if not held_out:
            raise UserError(f"{source}: none of the {unit} is usable (rejected {rejected}: {reasons})")
        raise UserError(
            f"{source}: {counts['train']} {unit} to train on and {counts['held_out']} held out are usable, "
            f"at least one of each is needed{f' (rejected {rejected}: {reasons})' if rejected else ''}"
        )
    if rejected:
        more = "; …" if rejected > 3 else ""
        warnings.warn(
            f"{rejected} rejected, {counts.total()} {unit} used: {reasons}{more}; all are in {job.out / 'rejected'}",
            stacklevel=2,
        )
