"""Which labelled responses a GenRM trains on and is tested on: balanced, and no input on both sides (RLR³, 5.4)."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rubricworks.errors import UserError
from rubricworks.stages.data.source_splits import hash_order


class Labelled(NamedTuple):
    """A labelled response, as far as the draw needs to know it."""

    sample_id: str
    image_digest: str
    loses_credit: bool


def draw_genrm_splits(rows: Sequence[Labelled], *, test: int, balance: bool, seed: int) -> dict[int, str]:
    """Number of the row → `train`, `test`, or `left_out`: on the training side, but too many of its kind.

    Images go to the test, each with all its samples, until there is enough for `test` rows; what they have more is in
    neither split. Where the data is balanced,
    both splits hold as many responses that lose credit as ones that keep it all, drawn from the larger half.

    Raises:
        UserError: the test would take half of the images or more, or a split cannot be balanced.
    """
    by_image: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        by_image.setdefault(row.image_digest, []).append(number)
    images = hash_order(by_image, seed)
    taken: list[int] = []
    used = 0
    while _usable(rows, taken, balance) < test and 2 * used < len(images):
        taken += by_image[images[used]]
        used += 1
    found = _usable(rows, taken, balance)
    if found < test or 2 * used > len(images):
        kind = "balanced responses" if balance else "responses"
        raise UserError(
            f"test is {test}, and half of the {len(images)} images with labels give only {found} {kind}; lower it, "
            "draw more responses each, or take more samples"
        )
    rest = [number for image in images[used:] for number in by_image[image]]
    splits = dict.fromkeys(_kept(rows, taken, balance, seed, most=test), "test")
    train = _kept(rows, rest, balance, seed)
    if not train:
        raise UserError(
            f"of {len(rest)} labelled responses to train on none is left once those that lose credit are balanced "
            "with those that do not: all are of one kind; set balance to false, or draw at another temperature"
        )
    return splits | dict.fromkeys(rest, "left_out") | dict.fromkeys(train, "train")


def _usable(rows: Sequence[Labelled], numbers: Sequence[int], balance: bool) -> int:
    losing = sum(rows[number].loses_credit for number in numbers)
    return 2 * min(losing, len(numbers) - losing) if balance else len(numbers)


def _kept(
    rows: Sequence[Labelled], numbers: Iterable[int], balance: bool, seed: int, *, most: int | None = None
) -> list[int]:
    """At most so many of them, of both kinds alike if balanced, in a drawn order."""
    drawn = [int(name) for name in hash_order(map(str, numbers), seed)]
    if not balance:
        return drawn[:most]
    losing = [number for number in drawn if rows[number].loses_credit]
    keeping = [number for number in drawn if not rows[number].loses_credit]
    each = min(len(losing), len(keeping), len(drawn) if most is None else (most + 1) // 2)
    return losing[:each] + keeping[:each]
