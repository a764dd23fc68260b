"""Official caption benchmarks in local files, as tables that the stage `score` reads.

    CaptionQA        {image: [{"question", "choices", "answer": text of the right choice}]} → exams
    CapArena-Auto    {image: {"captions": {model: caption, "human": caption}, "ref_model"}} → references, by `source`
    DeCapBench       a caption, or a list of them, per image → references; so do DOCCI's, PixMo-Cap's, DenseFusion's
                     captions: JSON {image: caption}, or JSON lines with `file_name` and `caption`

Images are known by their file names. Images without an entry stay unchanged; entries without an image are counted.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from rubricworks.data.manifest import read_manifest
from rubricworks.data.rows import iter_rows
from rubricworks.data.rubric_sets import RubricEntry
from rubricworks.data.source_entries import file_name
from rubricworks.data.tables import build_table, read_rows
from rubricworks.errors import UserError
from rubricworks.evaluation.scorers.caption_prompts import StoredExam, StoredQuestion
from rubricworks.metrics import LETTERS

_SHARD = 64
HUMAN = "human"
"""Source of CapArena-Auto's expert captions."""


class Exams(NamedTuple):
    """Questions of a benchmark."""

    by_image: dict[str, StoredExam]
    unusable: int
    """Questions whose answer is none of their choices, or that have fewer than two."""


def read_caption_qa(path: Path) -> Exams:
    """Read CaptionQA's questions: image's file name → exam.

    Raises:
        UserError: the file has another form, or no usable question.
    """
    entries = _read_json(path)
    exams: dict[str, StoredExam] = {}
    unusable = 0
    for image, rows in entries.items():
        if not isinstance(rows, list):
            raise UserError(f"{path}: {image}: give a list of questions, each with question, choices and answer")
        questions = [question for row in rows if (question := _question(row))]
        unusable += len(rows) - len(questions)
        if questions:
            exams[Path(image).name] = StoredExam(questions=tuple(questions))
    if not exams:
        raise UserError(f"{path}: no usable question; each needs question, choices and answer, one of the choices")
    return Exams(exams, unusable)


def read_references(path: Path, source: str | None = None) -> dict[str, tuple[str, ...]]:
    """Read reference captions: image's file name → captions.

    Args:
        source: whose captions to take from a file with those of several, such as CapArena-Auto's `human`.
    Raises:
        UserError: the file has another form, an image comes twice, or has no caption of the source.
    """
    references: dict[str, tuple[str, ...]] = {}
    if path.suffix == ".json":
        entries = _read_json(path).items()
    else:
        rows = iter_rows(path, ["file_name"], optional=("caption", "captions"))
        entries = ((row["file_name"], row.get("caption", row.get("captions"))) for row in rows)  # type: ignore[assignment]
    for image, entry in entries:
        captions = entry
        if isinstance(entry, dict):
            known = entry.get("captions", entry)
            chosen = source or HUMAN
            if chosen not in known:
                raise UserError(f"{path}: {image} has no caption by {chosen}; it has {', '.join(known)}")
            captions = known[chosen]
        texts = [captions] if isinstance(captions, str) else captions
        if (
            not isinstance(texts, list)
            or not texts
            or not all(isinstance(text, str) and text.strip() for text in texts)
        ):
            raise UserError(f"{path}: {image}: give a caption, or a list of captions")
        if (name := Path(str(image)).name) in references:
            raise UserError(f"{path}: {name} comes twice; keep one")
        references[name] = tuple(texts)
    if not references:
        raise UserError(f"{path}: no captions")
    return references


def write_exams(exams: Mapping[str, StoredExam], samples: Path, out: Path, origin: str) -> int:
    """Write the exams of a table's samples as a table `exams`; return the number of samples without one.

    Raises:
        UserError: no sample's image is among those of the exams.
    """
    rows, absent = [], 0
    for row in read_rows(samples, columns=["sample_id", "source"]):
        if (exam := exams.get(file_name(row["source"]))) is None:
            absent += 1
            continue
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "cost": 0.0}
        rows.append({"sample_id": row["sample_id"], "questions": exam.model_dump_json(), "writer": origin,
                     "prompt_version": "official", **usage})  # fmt: skip
    if not rows:
        raise UserError(f"{origin}: none of its images is among the samples; they are known by their file names")
    _write(out, "exams", rows, samples, origin)
    return absent


def write_referenced(references: Mapping[str, Sequence[str]], samples: Path, out: Path, origin: str) -> int:
    """Write the samples with these references in place of their own; return the number of samples without any.

    Raises:
        UserError: no sample's image is among those of the references.
    """
    absent = total = 0
    names = [file_name(row["source"]) for row in read_rows(samples, columns=["source"])]
    if not references.keys() & set(names):
        raise UserError(f"{origin}: none of its images is among the samples; they are known by their file names")

    def referenced() -> Any:
        nonlocal absent, total
        for row in read_rows(samples):
            total += 1
            captions = references.get(file_name(row["source"]))
            absent += captions is None
            yield {**row, "references": list(captions or ())}

    _write(out, "samples", referenced(), samples, origin)
    return absent


def write_rubrics(entries: Iterable[RubricEntry], samples: Path, out: Path, origin: str) -> None:
    """Write the rubrics of a set as a table `rubrics`."""
    usage = {"prompt_tokens": 0, "completion_tokens": 0, "cost": 0.0}
    rows = (
        {
            "sample_id": entry.sample_id,
            "rubric": entry.rubric.model_dump_json(),
            "writer": origin,
            "prompt_version": "given",
            "coverage": "",
            "candidates": len(entry.rubric.criteria),
            **usage,
        }
        for entry in entries
    )
    _write(out, "rubrics", rows, samples, origin)


def _write(out: Path, table: str, rows: Any, samples: Path, origin: str) -> None:
    async def same(chunk: list[dict[str, object]]) -> list[dict[str, object]]:
        return chunk

    made_by = {"stage": f"official_{table}", "config": origin, "inputs": {"samples": read_manifest(samples).digest}}
    asyncio.run(build_table(out, table, rows, same, made_by={**made_by, "version": "1"}, shard_size=_SHARD))


def _question(row: Any) -> StoredQuestion | None:
    """A question in our form; None if its answer is not one of its choices."""
    try:
        choices = [choice["text"] if isinstance(choice, dict) else str(choice) for choice in row["choices"]]
        answer = [choice.strip() for choice in choices].index(row["answer"].strip())
        return StoredQuestion(question=row["question"], options=tuple(choices), answer=LETTERS[answer])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ValidationError):
        return None


def _read_json(path: Path) -> dict[str, object]:
    try:
        entries = json.loads(path.read_bytes())
    except (ValueError, OSError, RecursionError) as error:
        raise UserError(f"{path}: not JSON ({error})") from error
    if not isinstance(entries, dict) or not entries:
        raise UserError(f"{path}: give one JSON object, from an image's file name to its entry")
    return entries
