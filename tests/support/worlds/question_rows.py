"""Questions about small pictures as Parquet rows."""

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image


def picture(number: int, *, side: int = 16, level: int = 6) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (side, side), (number % 256, 3 * number % 256, 90)).save(buffer, "PNG", compress_level=level)
    return buffer.getvalue()


def write(folder: Path, rows: list[dict]) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    columns = ("image", "question", "answer", "task", "options", "references")
    table = pa.table({name: [row.get(name) for row in rows] for name in columns if any(name in row for row in rows)})
    pq.write_table(table, folder / "questions.parquet", row_group_size=16)
    return str(folder)


def question_row(number: int, question: str, **more: object) -> dict:
    return {"image": picture(number), "question": question, "answer": "1", **more}


def many(pictures: int = 30, each: int = 3) -> list[dict]:
    """Many questions, every fifth of them multiple choice."""
    rows = [question_row(number, f"how many {at} ?", task=f"t{at}") for number in range(pictures) for at in range(each)]
    for row in rows[::5]:
        row |= {"options": ["0", "1"], "references": [r"\boxed{B}"]}
    return rows
