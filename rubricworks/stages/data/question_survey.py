"""The first look at a source of questions: which rows repeat others, and which split each picture belongs to.

Pictures are told apart by their pixels, so every image is opened once before any split can be drawn. The digests are
kept in the run's scratch by the sha256 of the files' bytes, so that a run that is killed does not open them again.
"""

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from rubricworks.data.images import BadImage, image_digest, normalise_image
from rubricworks.data.question_text import normalise_question, question_with_options
from rubricworks.data.questions import QuestionEntry
from rubricworks.data.source_entries import ImageEntry, RejectedEntry
from rubricworks.stages.data.source_splits import in_drawn_order

_EVERY = 2_000
_log = logging.getLogger(__name__)


class Surveyed(NamedTuple):
    """A usable row that repeats no other."""

    sample_id: str
    image_digest: str
    multiple_choice: bool
    task: str


class Survey(NamedTuple):
    """What a source holds."""

    questions: dict[str, Surveyed]
    """Key of the row → what it is."""
    duplicates: frozenset[str]
    """Keys of the rows that repeat an earlier one."""
    unusable: int
    tasks: Counter[str]


class PictureDigests:
    """Digest of what a file's picture becomes, remembered beside the run."""

    def __init__(self, memory: Path, max_side: int) -> None:
        self._file, self._max_side = memory / f"side-{max_side}.jsonl", max_side
        self._known: dict[str, str] = {}
        if self._file.exists():
            for line in self._file.read_bytes().splitlines():
                try:
                    self._known.update([json.loads(line)])
                except ValueError:
                    continue  # the line that a kill cut off

    def of(self, image: ImageEntry) -> str:
        """The picture's digest, as `open_image` would give it.

        Raises:
            BadImage, OSError: it cannot be read.
        """
        content = image.read()
        name = hashlib.sha256(content).hexdigest()
        if name not in self._known:
            self._known[name] = image_digest(normalise_image(content, max_side=self._max_side))
            with self._file.open("a") as lines:
                lines.write(f"\n{json.dumps([name, self._known[name]])}")
        return self._known[name]


def survey_questions(found: Iterable[QuestionEntry | RejectedEntry], pictures: PictureDigests) -> Survey:
    """Look at every row once; of rows with the same picture and the same question the first one counts."""
    questions: dict[str, Surveyed] = {}
    duplicates: set[str] = set()
    sample_ids: set[str] = set()
    unusable = 0
    for number, one in enumerate(found, start=1):
        if number % _EVERY == 0:
            _log.info("%s questions looked at, %s of them repeated", f"{number:,}", f"{len(duplicates):,}")
        try:
            digest = None if isinstance(one, RejectedEntry) else pictures.of(one.image)
        except (BadImage, OSError):
            digest = None
        if digest is None or isinstance(one, RejectedEntry):
            unusable += 1
            continue
        key, sample_id = one.image.key, sample_id_of(digest, one)
        if sample_id in sample_ids:
            duplicates.add(key)
            continue
        sample_ids.add(sample_id)
        questions[key] = Surveyed(sample_id, digest, bool(one.options), one.task or "")
    tasks = Counter(one.task for one in questions.values() if one.task)
    return Survey(questions, frozenset(duplicates), unusable, tasks)


def sample_id_of(digest: str, found: QuestionEntry) -> str:
    """Names a question about a picture, however it is spelled; options are part of a question."""
    asked = question_with_options(normalise_question(found.question), [*map(normalise_question, found.options)])
    return hashlib.sha256(f"{digest}\x00{asked}".encode()).hexdigest()[:16]


def draw_splits(
    questions: Iterable[Surveyed], *, seed: int, held_out: int, warm_up: int, max_train: int | None
) -> dict[str, str]:
    """sample_id → split. A picture's questions stay together; so many questions are held out, or a few more.

    One picture at least is left to train on. Under `max_train` the training questions are drawn one by one.
    """
    by_picture: dict[str, list[str]] = {}
    for one in questions:
        by_picture.setdefault(one.image_digest, []).append(one.sample_id)
    pictures = in_drawn_order(by_picture, seed)
    splits: dict[str, str] = {}
    for split, wanted in (("held_out", held_out), ("warm_up", warm_up)):
        taken = 0
        while taken < wanted and len(pictures) > 1:
            asked = by_picture[pictures.pop(0)]
            splits.update(dict.fromkeys(asked, split))
            taken += len(asked)
    left = [sample_id for picture in pictures for sample_id in by_picture[picture]]
    return splits | dict.fromkeys(in_drawn_order(left, seed)[:max_train], "train")
