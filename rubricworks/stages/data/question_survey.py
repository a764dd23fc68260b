"""Survey of a question source before any table is built: duplicate rows, and each picture's split.

Pictures are compared by their pixels, so every image is opened once before the splits are drawn. Their digests are
cached in the run's scratch folder by the sha256 of the files' bytes, so that a killed run does not open them again.
"""

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from rubricworks.data.images import BadImage, image_digest, normalise_image
from rubricworks.data.question_text import normalise_question, question_with_options
from rubricworks.data.questions import QuestionEntry
from rubricworks.data.source_entries import ImageEntry, RejectedEntry
from rubricworks.stages.data.source_splits import hash_order

_LOG_EVERY = 2_000
_log = logging.getLogger(__name__)


class UniqueQuestion(NamedTuple):
    """A usable row that is no duplicate."""

    sample_id: str
    image_digest: str
    multiple_choice: bool
    task: str


class Survey(NamedTuple):
    """Contents of a question source."""

    questions: dict[str, UniqueQuestion]
    """Unique questions by row key."""
    duplicates: frozenset[str]
    """Keys of the rows that repeat an earlier row."""
    unusable: int
    tasks: Counter[str]


class PictureDigests:
    """Cache of the digests of normalised pictures, in a folder of the run."""

    def __init__(self, folder: Path, max_side: int) -> None:
        self._file, self._max_side = folder / f"side-{max_side}.jsonl", max_side
        self._digests: dict[str, str] = {}
        if self._file.exists():
            for line in self._file.read_bytes().splitlines():
                try:
                    self._digests.update([json.loads(line)])
                except ValueError:
                    continue  # a line cut short by a kill

    def digest(self, image: ImageEntry) -> str:
        """Return the picture's digest, the same as `open_image` gives.

        Raises:
            BadImage, OSError: the image cannot be read.
        """
        content = image.read()
        name = hashlib.sha256(content).hexdigest()
        if name not in self._digests:
            self._digests[name] = image_digest(normalise_image(content, max_side=self._max_side))
            with self._file.open("a") as lines:
                lines.write(f"\n{json.dumps([name, self._digests[name]])}")
        return self._digests[name]


def survey_questions(
    entries: Iterable[QuestionEntry | RejectedEntry], pictures: PictureDigests, sample_ids: set[str] | None = None
) -> Survey:
    """Read every row once; of rows with the same question about the same picture the first one counts.

    Args:
        sample_ids: questions of other sources, which are duplicates here; this source's are added.
    """
    questions: dict[str, UniqueQuestion] = {}
    duplicates: set[str] = set()
    sample_ids = set() if sample_ids is None else sample_ids
    unusable = 0
    for number, entry in enumerate(entries, start=1):
        if number % _LOG_EVERY == 0:
            _log.info("%s questions looked at, %s of them repeated", f"{number:,}", f"{len(duplicates):,}")
        try:
            digest = None if isinstance(entry, RejectedEntry) else pictures.digest(entry.image)
        except (BadImage, OSError):
            digest = None
        if digest is None or isinstance(entry, RejectedEntry):
            unusable += 1
            continue
        key, sample_id = entry.image.key, question_sample_id(digest, entry)
        if sample_id in sample_ids:
            duplicates.add(key)
            continue
        sample_ids.add(sample_id)
        questions[key] = UniqueQuestion(sample_id, digest, bool(entry.options), entry.task or "")
    tasks = Counter(question.task for question in questions.values() if question.task)
    return Survey(questions, frozenset(duplicates), unusable, tasks)


def merge_surveys(surveys: Sequence[Survey]) -> Survey:
    """Combine the surveys of several sources, whose keys differ."""
    questions = {key: question for survey in surveys for key, question in survey.questions.items()}
    tasks = sum((survey.tasks for survey in surveys), Counter())
    unusable = sum(survey.unusable for survey in surveys)
    return Survey(questions, frozenset().union(*(survey.duplicates for survey in surveys)), unusable, tasks)


def question_sample_id(digest: str, entry: QuestionEntry) -> str:
    """Return the sample id of a question with its options about a picture; spelling variants get the same id."""
    question = question_with_options(normalise_question(entry.question), [*map(normalise_question, entry.options)])
    return hashlib.sha256(f"{digest}\x00{question}".encode()).hexdigest()[:16]


def draw_splits(
    questions: Iterable[UniqueQuestion], *, seed: int, held_out: int, warm_up: int, max_train: int | None
) -> dict[str, str]:
    """Return sample_id → split, with all questions about a picture in one split.

    So `held_out` and `warm_up` may be exceeded by a few. At least one picture remains to train on. Under `max_train`
    the training questions are drawn one by one.
    """
    by_picture: dict[str, list[str]] = {}
    for question in questions:
        by_picture.setdefault(question.image_digest, []).append(question.sample_id)
    pictures = hash_order(by_picture, seed)
    splits: dict[str, str] = {}
    for split, target in (("held_out", held_out), ("warm_up", warm_up)):
        count = 0
        while count < target and len(pictures) > 1:
            sample_ids = by_picture[pictures.pop(0)]
            splits.update(dict.fromkeys(sample_ids, split))
            count += len(sample_ids)
    rest = [sample_id for picture in pictures for sample_id in by_picture[picture]]
    return splits | dict.fromkeys(hash_order(rest, seed)[:max_train], "train")
