"""Train and test splits of a GenRM's labelled responses: balanced, with no input in both (RLR³, section 5.4)."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rubricworks.errors import UserError
from rubricworks.stages.data.source_splits import hash_order


class LabelledResponse(NamedTuple):
    """Fields of a labelled response that the draw uses."""

    sample_id: str
    image_digest: str
    loses_credit: bool


def draw_genrm_splits(rows: Sequence[LabelledResponse], *, test: int, balance: bool, seed: int) -> dict[int, str]:
    """Assign row numbers to `train`, `test`, or `left_out`: training rows that balancing drops.

    Images are added to the test, each with all its samples, until there are enough for `test` rows; their surplus rows
    are in no split. Balanced splits have as many responses that lose credit as responses that do not; surplus
    responses of either kind are dropped at random.

    Raises:
        UserError: the test would take half of the images or more, or a split cannot be balanced.
    """
    by_image: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        by_image.setdefault(row.image_digest, []).append(number)
    images = hash_order(by_image, seed)
    candidates: list[int] = []
    used = 0
    while _usable(rows, candidates, balance) < test and 2 * used < len(images):
        candidates += by_image[images[used]]
        used += 1
    usable = _usable(rows, candidates, balance)
    if usable < test or 2 * used > len(images):
        kind = "balanced responses" if balance else "responses"
        raise UserError(
            f"test is {test}, and half of the {len(images)} images with labels give only {usable} {kind}; lower it, "
            "draw more responses each, or take more samples"
        )
    rest = [number for image in images[used:] for number in by_image[image]]
    splits = dict.fromkeys(_sample(rows, candidates, balance, seed, limit=test), "test")
    train = _sample(rows, rest, balance, seed)
    if not train:
        raise UserError(
            f"of {len(rest)} labelled responses to train on none is left once those that lose credit are balanced "
            "with those that do not: all are of one kind; set balance to false, or draw at another temperature"
        )
    return splits | dict.fromkeys(rest, "left_out") | dict.fromkeys(train, "train")


def _usable(rows: Sequence[LabelledResponse], numbers: Sequence[int], balance: bool) -> int:
    losing = sum(rows[number].loses_credit for number in numbers)
    return 2 * min(losing, len(numbers) - losing) if balance else len(numbers)


def _sample(
    rows: Sequence[LabelledResponse], numbers: Iterable[int], balance: bool, seed: int, *, limit: int | None = None
) -> list[int]:
    """Draw up to `limit` row numbers, equally many of both kinds if balanced."""
    order = [int(name) for name in hash_order(map(str, numbers), seed)]
    if not balance:
        return order[:limit]
    losing = [number for number in order if rows[number].loses_credit]
    keeping = [number for number in order if not rows[number].loses_credit]
    each = min(len(losing), len(keeping), len(order) if limit is None else (limit + 1) // 2)
    return losing[:each] + keeping[:each]
