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

    Images are added to the test, each with all its samples, until `test` samples can give one row each: an audit uses
    every input once. Where half of the images do not suffice for that, samples give several rows. Surplus rows of the
    test's images are in no split. Balanced splits have as many responses that lose credit as responses that do not;
    surplus responses of either kind are dropped at random.

    Raises:
        UserError: the test would take half of the images or more, or a split cannot be balanced.
    """
    by_image: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        by_image.setdefault(row.image_digest, []).append(number)
    images = hash_order(by_image, seed)
    tested: list[int] = []
    used, usable = 0, 0
    for usable_rows in (_usable_samples, _usable):
        candidates: list[int] = []
        used = 0
        while usable_rows(rows, candidates, balance) < test and 2 * used < len(images):
            candidates += by_image[images[used]]
            used += 1
        usable = usable_rows(rows, candidates, balance)
        if usable >= test and 2 * used <= len(images):
            one_each = usable_rows is _usable_samples
            tested = _one_per_sample(rows, candidates, balance, seed) if one_each else candidates
            break
    if usable < test or 2 * used > len(images):
        kind = "balanced responses" if balance else "responses"
        raise UserError(
            f"test is {test}, and half of the {len(images)} images with labels give only {usable} {kind}; lower it, "
            "draw more responses each, or take more samples"
        )
    rest = [number for image in images[used:] for number in by_image[image]]
    splits = dict.fromkeys(_sample(rows, tested, balance, seed, limit=test), "test")
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


def _usable_samples(rows: Sequence[LabelledResponse], numbers: Sequence[int], balance: bool) -> int:
    """Rows of a split with one row per sample: a sample with responses of both kinds counts for either."""
    losing = {rows[number].sample_id for number in numbers if rows[number].loses_credit}
    keeping = {rows[number].sample_id for number in numbers if not rows[number].loses_credit}
    every = len(losing | keeping)
    return 2 * min(len(losing), len(keeping), every // 2) if balance else every


def _one_per_sample(rows: Sequence[LabelledResponse], numbers: Iterable[int], balance: bool, seed: int) -> list[int]:
    """Draw one row of each sample, of the kind that is rarer so far where a sample has both."""
    by_sample: dict[str, list[int]] = {}
    for name in hash_order(map(str, numbers), seed):
        by_sample.setdefault(rows[int(name)].sample_id, []).append(int(name))
    if not balance:
        return [of_sample[0] for of_sample in by_sample.values()]
    kinds = [{rows[number].loses_credit: number for number in reversed(of_one)} for of_one in by_sample.values()]
    drawn = [number for by_kind in kinds if len(by_kind) == 1 for number in by_kind.values()]
    losing = sum(rows[number].loses_credit for number in drawn)
    for by_kind in kinds:
        if len(by_kind) == 2:
            loses = 2 * losing < len(drawn)
            drawn.append(by_kind[loses])
            losing += loses
    return drawn


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
