"""Rows in the form in which the recipes' sources are published, for a rehearsal without the sources themselves.

Pictures are small and drawn; what matters is the form: names and types of columns, images as bytes with a path, answers
in boxes, options at the end of a question, lists where a source has lists.
"""

import io
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image, ImageDraw

from rubricworks.rehearsal.scripted_answers import sentence

_COUNT = 44
_SIDES = (64, 84, 96, 120)


def captioned_images(folder: Path, count: int = _COUNT) -> Path:
    """Parquet as PixMo-Cap and DenseFusion are saved with their images: `image`, `caption`, `prompt`."""
    draw = random.Random(1)
    rows = [
        {
            "image": {"bytes": picture(draw), "path": f"{number:09d}.jpg"},
            "caption": " ".join(sentence(draw) for _ in range(4)),
            "prompt": "Describe this image in detail.",
        }
        for number in range(count)
    ]
    return _parquet(folder / "captions.parquet", rows)


def questions(folder: Path, count: int = _COUNT) -> Path:
    """ViRL39K's form: `question` with its image tag, `answer` in a box, `image` as a list, options in the question."""
    draw = random.Random(2)
    rows = []
    for number in range(count):
        right = draw.randint(2, 40)
        is_choice = number % 3 == 2
        options = "".join(f"\n{letter}. {right + at}" for at, letter in enumerate("ABCD"))
        rows.append(
            {
                "qid": f"q{number}",
                "question": f"<image>How many tiles does figure {number} need?{options if is_choice else ''}",
                "answer": "\\boxed{A}" if is_choice else f"\\boxed{{{right}}}",
                "category": draw.choice(("(GradeSchool) Math", "Science", "Broader STEM Topics", "OCR")),
                "source": "Processed",
                "image": [{"bytes": picture(draw), "path": f"images/{number}.png"}],
            }
        )
    return _parquet(folder / "questions.parquet", rows)


def instructions(folder: Path, count: int = _COUNT) -> Path:
    """LLaVA-NeXT's data: `conversations` of one turn or several, multiple choice, and rows without an image."""
    draw = random.Random(5)
    rows: list[dict[str, Any]] = []
    for number in range(count):
        is_text, turns = number % 5 == 4, 1 + number % 3
        conversation = []
        for turn in range(turns):
            question = (
                "Which is it?\nA. a dog\nB. a tree\nAnswer with the option's letter from the given choices directly."
            )
            asked = question if number % 4 == 3 else f"What about part {turn}?"
            place = "<image>\n" if turn == 0 and not is_text else ""
            conversation += [
                {"from": "human", "value": place + asked},
                {"from": "gpt", "value": "B" if number % 4 == 3 else sentence(draw)},
            ]
        image = None if is_text else {"bytes": picture(draw), "path": f"{number:06d}.jpg"}
        source = draw.choice(("sharegpt4v", "docvqa", "ai2d"))
        rows.append({"id": f"{number:06d}", "image": image, "conversations": conversation, "data_source": source})
    return _parquet(folder / "instructions.parquet", rows)


def benchmark_questions(folder: Path, count: int = 12) -> Path:
    """Questions of a benchmark: an image, a question, an answer, a task."""
    draw = random.Random(3)
    rows = [
        {
            "image": {"bytes": picture(draw), "path": f"{number}.png"},
            "question": f"What number does sign {number} show?",
            "answer": str(draw.randint(1, 99)),
            "task": draw.choice(("ocr", "counting")),
        }
        for number in range(count)
    ]
    return _parquet(folder / "benchmarks.parquet", rows)


def recaptioned_prompts(folder: Path, count: int = _COUNT) -> Path:
    """JSON lines with `prompts`: a picture's recaptions of several lengths."""
    draw = random.Random(4)
    rows = [{"prompts": [sentence(draw), " ".join(sentence(draw) for _ in range(3))]} for _ in range(count)]
    return _json_lines(folder / "prompts.jsonl", rows)


def geneval_prompts(folder: Path) -> Path:
    """GenEval's `evaluation_metadata.jsonl`."""
    rows: list[dict[str, Any]] = [
        {"tag": "single_object", "include": [{"class": "bench", "count": 1}], "prompt": "a photo of a bench"},
        {"tag": "two_object", "include": [{"class": "bench", "count": 1}, {"class": "dog", "count": 1}],
         "prompt": "a photo of a bench and a dog"},
        {"tag": "counting", "include": [{"class": "clock", "count": 2}], "exclude": [{"class": "clock", "count": 3}],
         "prompt": "a photo of two clocks"},
        {"tag": "colors", "include": [{"class": "dog", "count": 1, "color": "red"}], "prompt": "a photo of a red dog"},
        {"tag": "position", "include": [{"class": "dog", "count": 1}, {"class": "bench", "count": 1,
         "position": ["right of", 0]}], "prompt": "a photo of a bench right of a dog"},
        {"tag": "color_attr", "include": [{"class": "dog", "count": 1, "color": "green"}, {"class": "bench", "count": 1,
         "color": "red"}], "prompt": "a photo of a green dog and a red bench"},
    ]  # fmt: skip
    return _json_lines(folder / "evaluation_metadata.jsonl", rows)


def picture(draw: random.Random) -> bytes:
    """A small drawn picture as PNG."""
    image = Image.new("RGB", (draw.choice(_SIDES), draw.choice(_SIDES)), _colour(draw))
    pen = ImageDraw.Draw(image)
    for _ in range(3):
        left, top = draw.randint(0, image.width // 2), draw.randint(0, image.height // 2)
        pen.ellipse((left, top, left + draw.randint(8, 40), top + draw.randint(8, 40)), fill=_colour(draw))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def _colour(draw: random.Random) -> tuple[int, int, int]:
    return draw.randrange(256), draw.randrange(256), draw.randrange(256)


def _parquet(file: Path, rows: list[dict[str, Any]]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file


def _json_lines(file: Path, rows: list[dict[str, Any]]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file
