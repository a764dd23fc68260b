"""RLR³'s 15 benchmarks by the paper's protocol (section 5.1), over their own data: step by step, the last box counts.

The data is a folder as the Hub has it, `SOURCE/ORG/NAME` with Parquet files; here stand each benchmark's files, split
and fields. Prompts are the two templates of `data.question_text`; CharXiv's descriptive questions, which are numbers in
its data, are in our words. If the answers of a test split are not public, the validation split is used. Of several
reference answers one is enough.
"""

import ast
import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from rubricworks.data.question_text import (
    LETTERS,
    Templates,
    answer_letter,
    question_with_options,
    split_options,
    strip_image_tags,
)
from rubricworks.data.source_entries import ImageEntry, RejectedEntry
from rubricworks.data.sources import image_bytes
from rubricworks.data.tables import Sample
from rubricworks.errors import UserError
from rubricworks.llm import image_part, text_part
from rubricworks.llm.messages import Part

Row = Mapping[str, Any]
_BATCH = 16
_IMAGE_MARK = re.compile(r"<image (\d+)>")
_DIRECTLY = re.compile(r"\s*Please answer (directly )?with[^.]*\.\s*$", re.IGNORECASE)
"""RealWorldQA's last sentence, which asks for an answer without steps."""
_NO_QUESTION = "Answer the question that the image shows."


class Asked(NamedTuple):
    """Question of one row."""

    question: str
    """Without its options. `<image 2>` marks the second image; unmarked images come first."""
    answers: tuple[str, ...]
    """Reference answers; of a multiple-choice question, the letter."""
    images: tuple[Any, ...]
    """Cells."""
    options: tuple[str, ...] = ()
    is_choice: bool = False
    """A letter is requested, even if the options are in the image."""


class BoxedQuestion(NamedTuple):
    """A question as a model gets it, with one sample per reference answer."""

    sample_id: str
    content: list[Part]
    references: tuple[Sample, ...]


class BoxedBenchmark(NamedTuple):
    """One benchmark's data."""

    task: str
    """Name of the task, as in the set."""
    folder: str
    """Data set on the Hub."""
    files: tuple[str, ...]
    """Patterns of its Parquet files."""
    read: Callable[[Row], Iterator[Asked]]


def boxed_questions(benchmark: BoxedBenchmark, source: Path, limit: int | None) -> Iterator[BoxedQuestion]:
    """Iterate over a benchmark's questions, a few rows in memory at a time.

    Raises:
        UserError: its files are not there, or a row has another shape.
    """
    folder, number = source / benchmark.folder, 0
    files = [file for pattern in benchmark.files for file in sorted(folder.glob(pattern))]
    if not files:
        raise UserError(
            f"{folder}: no {' or '.join(benchmark.files)}; get it with "
            f"hf download {benchmark.folder} --repo-type dataset --local-dir {folder}"
        )
    for file in files:
        try:
            with pq.ParquetFile(file) as parquet:
                rows = (row for batch in parquet.iter_batches(batch_size=_BATCH) for row in batch.to_pylist())
                for at, row in enumerate(rows):
                    for asked in _asked(benchmark, file, at, row):
                        if limit is not None and number >= limit:
                            return
                        yield _boxed(benchmark.task, number, asked, f"{file}#{at}")
                        number += 1
        except (pa.ArrowException, OSError) as error:
            raise UserError(f"{file}: damaged Parquet file: {str(error).splitlines()[0]}") from error


def _asked(benchmark: BoxedBenchmark, file: Path, at: int, row: Row) -> list[Asked]:
    try:
        asked = list(benchmark.read(row))
        if any(not entry.question.strip() or not all(entry.answers) or not entry.answers for entry in asked):
            raise ValueError("it has no question or no answer")
        return asked
    except KeyError as error:
        raise UserError(
            f"{file}#{at}: no field {error}; the data of {benchmark.task} has another shape than its loader knows: "
            f"{', '.join(row)}"
        ) from error
    except (ValueError, TypeError, AttributeError, SyntaxError, IndexError) as error:
        raise UserError(f"{file}#{at}: not a question of {benchmark.task}: {error}") from error


def _boxed(task: str, number: int, asked: Asked, place: str) -> BoxedQuestion:
    is_choice = bool(asked.options) or asked.is_choice
    templates = Templates()
    prompt = templates.prompt(asked.question, asked.options)
    if is_choice and not asked.options:
        prompt = Templates(choice=templates.choice.replace("\n{options}", "")).choice.replace(
            "{question}", asked.question
        )
    images = [_image(cell, f"{place}, image {at}") for at, cell in enumerate(asked.images, start=1)]
    question = question_with_options(asked.question, asked.options) if asked.options else asked.question
    references = tuple(
        Sample(
            sample_id=f"{task}/{number}",
            prompt=prompt,
            question=question,
            answer=answer,
            task=task,
            options=asked.options or (("",) if is_choice else None),
        )
        for answer in asked.answers
    )
    return BoxedQuestion(f"{task}/{number}", _content(prompt, images), references)


def _content(prompt: str, images: list[bytes]) -> list[Part]:
    """Parts of the message: images where the prompt names them, the others before it."""
    named = {int(number) for number in _IMAGE_MARK.findall(prompt)}
    parts: list[Part] = [image_part(image) for at, image in enumerate(images, start=1) if at not in named]
    end = 0
    for mark in _IMAGE_MARK.finditer(prompt):
        at = int(mark[1])
        if at <= len(images):
            parts += [text_part(prompt[end : mark.start()])] if prompt[end : mark.start()].strip() else []
            parts.append(image_part(images[at - 1]))
            end = mark.end()
    return [*parts, text_part(prompt[end:])]


def _image(cell: Any, place: str) -> bytes:
    """Bytes of an image that a data set holds as bytes, as a struct of them, or in base64."""
    content = cell.get("bytes") if isinstance(cell, dict) else cell
    if isinstance(content, str):
        try:
            content = base64.b64decode(content.partition(";base64,")[2] or content, validate=True)
        except binascii.Error:
            content = None
    if not isinstance(content, bytes):
        raise UserError(f"{place}: no image, but {type(cell).__name__}")
    image = image_bytes(ImageEntry("", place, partial(bytes, content)), max_side=None)
    if isinstance(image, RejectedEntry):
        raise UserError(f"{place}: {image.reason}")
    return image


def _split(text: str, answer: str, *images: Any) -> Asked:
    """A question whose options, if it has any, end its text."""
    answer = answer.strip()
    letter = answer_letter(answer, LETTERS) if len(answer) <= 3 and answer.isupper() else None
    if letter is None:
        return Asked(text.strip(), (answer,), images)
    question, options = split_options(strip_image_tags(text))
    if options and LETTERS.index(letter) >= len(options):
        raise ValueError(f"the answer {letter} is none of its {len(options)} options")
    return Asked(question.strip(), (letter,), images, tuple(option.rstrip(" ;,") for option in options), is_choice=True)


def _chosen(question: str, options: list[str] | None, answer: str, *images: Any) -> Asked:
    """A question with a list of options; the answer is an option or its letter."""
    if not options:
        return Asked(question.strip(), (answer.strip(),), images)
    letter = answer_letter(answer, tuple(options))
    if letter is None:
        raise ValueError(f"the answer {answer[:60]!r} is none of its {len(options)} options")
    return Asked(question.strip(), (letter,), images, tuple(options))


def _wemath(row: Row) -> Iterator[Asked]:
    yield _split(f"{row['question']}\n{row['option']}", row["answer"], row["image_path"])


def _dynamath(row: Row) -> Iterator[Asked]:
    yield _split(row["question"], str(row["ground_truth"]), row["decoded_image"])


def _mathvision(row: Row) -> Iterator[Asked]:
    yield _chosen(re.sub(r"<image\d*>", "", row["question"]), row["options"], str(row["answer"]), row["decoded_image"])


def _mathverse(row: Row) -> Iterator[Asked]:
    text = (row["question"] or "").strip() or (row["query_wo"] or "").strip() or _NO_QUESTION
    yield _split(text, str(row["answer"]), row["image"])


def _mathvista(row: Row) -> Iterator[Asked]:
    unit = f" (Unit: {row['unit']})" if row["unit"] else ""
    yield _chosen(row["question"] + unit, row["choices"], str(row["answer"]), row["decoded_image"])


def _mmmu_pro(row: Row) -> Iterator[Asked]:
    if "image_1" not in row:  # the question and its options are in the image
        yield Asked(_NO_QUESTION, (row["answer"].strip(),), (row["image"],), is_choice=True)
        return
    options = [str(option) for option in ast.literal_eval(row["options"])]
    images = [row[f"image_{at}"] for at in range(1, 8) if row.get(f"image_{at}")]
    yield _chosen(row["question"], options, row["answer"], *images)


def _realworldqa(row: Row) -> Iterator[Asked]:
    yield _split(_DIRECTLY.sub("", row["question"]), row["answer"], row["image"])


def _mmstar(row: Row) -> Iterator[Asked]:
    yield _split(row["question"], row["answer"], row["image"])


def _simplevqa(row: Row) -> Iterator[Asked]:
    yield Asked(row["question"], (str(row["answer"]),), (row["image"],))


def _countbenchqa(row: Row) -> Iterator[Asked]:
    yield Asked(row["question"], (str(row["number"]),), (row["image"],))


def _docvqa(row: Row) -> Iterator[Asked]:
    yield Asked(row["question"], tuple(map(str, row["answers"])), (row["image"],))


def _chartqa(row: Row) -> Iterator[Asked]:
    yield Asked(row["question"], (str(row["answer"]),), (row["image"],))


def _charxiv_reasoning(row: Row) -> Iterator[Asked]:
    yield Asked(row["reasoning_q"], (str(row["reasoning_a"]),), (row["image"],))


def _charxiv_descriptive(row: Row) -> Iterator[Asked]:
    where = row["subplot_loc"] or [row["subplot_row"], row["subplot_col"]]
    if isinstance(where, str):
        place = f"In {where}: "
    else:
        place = "" if not where[0] else f"In the subplot in row {where[0]} and column {where[1]}: "
    for at in range(1, 5):
        number = row[f"descriptive_q{at}"]
        question = DESCRIPTIVE_QUESTIONS[number]
        text = question if number in (18, 19) else place + question
        yield Asked(text, (str(row[f"descriptive_a{at}"]),), (row["image"],))


_NONE = " If there is none, the answer is: Not Applicable."
DESCRIPTIVE_QUESTIONS: Mapping[int, str] = {
    1: f"What is the title of the plot, as it is written?{_NONE}",
    2: f"What is the label of the x-axis, the lower one of two?{_NONE}",
    3: f"What is the label of the y-axis, the left one of two?{_NONE}",
    4: "What is the leftmost labelled tick of the x-axis, the lower one of two, without units that stand elsewhere?",
    5: "What is the rightmost labelled tick of the x-axis, the lower one of two, without units that stand elsewhere?",
    6: "What is the lowest labelled tick of the y-axis, the left one of two, without units that stand elsewhere?",
    7: "What is the highest labelled tick of the y-axis, the left one of two, without units that stand elsewhere?",
    8: f"What is the constant difference of consecutive numerical ticks on the x-axis, the lower one of two?{_NONE}",
    9: f"What is the constant difference of consecutive numerical ticks on the y-axis, the left one of two?{_NONE}",
    10: f"How many lines does the plot have, without grid lines and auxiliary ones?{_NONE}",
    11: f"Do any lines of the plot intersect (Yes or No), grid lines and auxiliary ones aside?{_NONE}",
    12: f"How many discrete labels does the legend have?{_NONE}",
    13: f"What are the legend's labels, from top to bottom and then from left to right, separated by commas?{_NONE}",
    14: f"What is the highest minus the lowest tick of the colour bar, without a percent sign?{_NONE}",
    15: f"What is the highest tick of the colour bar, without a percent sign?{_NONE}",
    16: "What is the general trend of the data from left to right, in a few words, such as: increases then stabilizes?",
    17: "How many labelled ticks do all axes have together?",
    18: "What is the layout of the subplots, as n by m with n rows and m columns? Without subplots it is 1 by 1.",
    19: "How many subplots are there? Without subplots it is 1.",
}
"""Number in CharXiv's data → its question, in our words."""

BOXED_BENCHMARKS: tuple[BoxedBenchmark, ...] = (
    BoxedBenchmark("wemath_testmini_reasoning", "We-Math/We-Math", ("**/testmini*.parquet",), _wemath),
    BoxedBenchmark("dynamath_reasoning", "kcz358/DynaMath", ("**/test-*.parquet",), _dynamath),
    BoxedBenchmark("mathvision_reason_test_reasoning", "MathLLMs/MathVision", ("**/test-*.parquet",), _mathvision),
    BoxedBenchmark("mathverse_testmini_reasoning", "CaraJ/MathVerse-lmmseval", ("**/testmini*.parquet",), _mathverse),
    BoxedBenchmark("mathvista_testmini_cot_reasoning", "AI4Math/MathVista", ("**/testmini*.parquet",), _mathvista),
    BoxedBenchmark(
        "mmmu_pro_reasoning",
        "MMMU/MMMU_Pro",
        ("standard (10 options)/test*.parquet", "vision/test*.parquet"),
        _mmmu_pro,
    ),
    BoxedBenchmark("realworldqa_reasoning", "lmms-lab-encoder/RealWorldQA", ("**/test*.parquet",), _realworldqa),
    BoxedBenchmark("mmstar_reasoning", "Lin-Chen/MMStar", ("**/*.parquet",), _mmstar),
    BoxedBenchmark("simplevqa", "m-a-p/SimpleVQA", ("**/*.parquet",), _simplevqa),
    BoxedBenchmark("countbenchqa_reasoning", "vikhyatk/CountBenchQA", ("**/test*.parquet",), _countbenchqa),
    BoxedBenchmark(
        "infovqa_val_reasoning", "lmms-lab-encoder/DocVQA", ("InfographicVQA/validation*.parquet",), _docvqa
    ),
    BoxedBenchmark("docvqa_val_reasoning", "lmms-lab-encoder/DocVQA", ("DocVQA/validation*.parquet",), _docvqa),
    BoxedBenchmark("chartqa_reasoning", "lmms-lab-encoder/ChartQA", ("**/test*.parquet",), _chartqa),
    BoxedBenchmark("charxiv_val_descriptive_cot", "princeton-nlp/CharXiv", ("**/val*.parquet",), _charxiv_descriptive),
    BoxedBenchmark("charxiv_val_reasoning_cot", "princeton-nlp/CharXiv", ("**/val*.parquet",), _charxiv_reasoning),
)
