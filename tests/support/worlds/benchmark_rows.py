"""Rows of the public benchmarks in the form that their data sets have on the Hub, written where lmms-eval looks.

Every question is "What is N + 1?", N its number; the answer is in each benchmark's own form.
"""

import io
import json
from base64 import b64encode
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from PIL import Image

Row = dict[str, Any]
_BLINK = ("Art_Style", "Counting", "Forensic_Detection", "Functional_Correspondence", "IQ_Test", "Jigsaw",
          "Multi-view_Reasoning", "Object_Localization", "Relative_Depth", "Relative_Reflectance",
          "Semantic_Correspondence", "Spatial_Relation", "Visual_Correspondence", "Visual_Similarity")  # fmt: skip
_WEMATH = ("2steps_1", "2steps_2", "2steps_multi", "3steps_1", "3steps_2", "3steps_3", "3steps_multi")
CHOICES = ["none", "the next one", "two more", "all"]


class DataSet(NamedTuple):
    """One configuration of a data set."""

    name: str
    """On the Hub."""
    split: str
    row: Callable[[int], Row]
    count: int = 3
    config: str = "default"


def question(number: int) -> str:
    return f"What is {number} + 1?"


def cell(colour: str = "red") -> Row:
    content = io.BytesIO()
    Image.new("RGB", (28, 28), colour).save(content, "PNG")
    return {"bytes": content.getvalue(), "path": f"{colour}.png"}


def _gqa(number: int) -> Row:
    return {"id": str(number), "imageId": f"i{number}", "question": question(number), "answer": str(number + 1)}


def _gqa_image(number: int) -> Row:
    return {"id": f"i{number}", "image": cell()}


def _blink(number: int) -> Row:
    prompt = f"{question(number)} " + " ".join(
        f"({letter}) {text}" for letter, text in zip("ABCD", CHOICES, strict=True)
    )
    images = {f"image_{at}": cell() if at < 3 else None for at in range(1, 5)}
    return {"idx": f"val_{number}", "sub_task": "Counting", "prompt": prompt, "question": question(number),
            "choices": CHOICES, "answer": "(B)", **images}  # fmt: skip


def _ai2d(number: int) -> Row:
    return {"question": question(number), "options": CHOICES, "answer": "1", "image": cell()}


def _realworldqa(number: int) -> Row:
    return {"image": cell(), "question": question(number), "answer": str(number + 1), "image_path": "x.png"}


def _ocrbench(number: int) -> Row:
    return {"dataset": "IIIT5K", "question": question(number), "question_type": "Digit String Recognition",
            "answer": [str(number + 1)], "image": cell()}  # fmt: skip


def _textvqa(number: int) -> Row:
    return {"image": cell(), "question_id": number, "question": question(number), "answers": [str(number + 1)] * 10}


def _docvqa(number: int) -> Row:
    return {"questionId": str(number), "question": question(number), "answers": [str(number + 1), "the next"],
            "image": cell()}  # fmt: skip


def _chartqa(number: int) -> Row:
    return {"image": cell(), "question": question(number), "answer": str(100 * (number + 1)),
            "type": "human_test" if number else "augmented_test"}  # fmt: skip


def _seedbench(number: int) -> Row:
    choices = {f"choice_{letter}": text for letter, text in zip("abcd", CHOICES, strict=True)}
    return {"image": [cell()], "question": question(number), **choices, "answer": "B", "question_id": str(number),
            "data_type": "image"}  # fmt: skip


def _scienceqa(number: int) -> Row:
    return {"image": cell(), "question": question(number), "choices": CHOICES, "answer": 1, "hint": "Count."}


def _mmmu(number: int) -> Row:
    images = {f"image_{at}": cell() if at == 1 else None for at in range(1, 8)}
    return {"id": f"validation_Art_{number}", "question": f"<image 1> {question(number)}", "options": str(CHOICES),
            "question_type": "multiple-choice", "answer": "B", **images}  # fmt: skip


def _mmmu_pro(number: int) -> Row:
    images = {f"image_{at}": cell() if at < 3 else None for at in range(1, 8)}
    return {"id": f"q{number}", "question": f"<image 1> <image 2> {question(number)}", "options": str(CHOICES),
            "subject": "Art", "answer": "B", **images}  # fmt: skip


def _mmmu_pro_vision(number: int) -> Row:
    return {"id": f"v{number}", "subject": "Art", "options": str(CHOICES), "answer": "B", "image": cell()}


def _mmstar(number: int) -> Row:
    text = "".join(f"\n{letter}: {text}" for letter, text in zip("ABCD", CHOICES, strict=True))
    return {"index": number, "question": f"{question(number)}\nOptions:{text}", "image": cell(), "answer": "B",
            "category": "math", "l2_category": "geometry"}  # fmt: skip


def _mmbench(number: int) -> Row:
    return {"index": number, "question": question(number), "hint": "nan", "answer": "B",
            **dict(zip("ABCD", CHOICES, strict=True)), "category": "c", "L2-category": "l", "source": "s",
            "split": "dev", "image": cell()}  # fmt: skip


def _mmvet(number: int) -> Row:
    return {"question_id": f"v{number}", "image": cell(), "question": question(number), "answer": str(number + 1),
            "capability": "math", "image_source": "x"}  # fmt: skip


def _mathvista(number: int) -> Row:
    metadata = {"split": "testmini", "language": "english", "source": "x", "category": "c", "task": "t",
                "context": "k", "grade": "g", "skills": ["s"]}  # fmt: skip
    return {"pid": str(number), "question": question(number), "decoded_image": cell(), "choices": None, "unit": None,
            "precision": None, "answer": str(number + 1), "question_type": "free_form", "answer_type": "integer",
            "metadata": metadata, "query": question(number)}  # fmt: skip


def _wemath(number: int) -> Row:
    key = _WEMATH[number]
    return {"ID": "1" if key.startswith("2") else "2", "split": "testmini", "knowledge concept": "sums",
            "question": question(number), "option": "A. none; B. the next one; C. two more", "answer": "B", "key": key,
            "question number": number, "knowledge concept description": "d", "image_path": cell()}  # fmt: skip


def _dynamath(number: int) -> Row:
    return {"id": str(number), "question_id": number, "question": question(number), "ground_truth": str(number + 1),
            "decoded_image": cell()}  # fmt: skip


def _mathvision(number: int) -> Row:
    return {"id": str(number), "question": f"<image1> {question(number)}", "options": CHOICES, "answer": "B",
            "decoded_image": cell()}  # fmt: skip


def _mathverse(number: int) -> Row:
    return {"sample_index": str(number), "question": question(number), "query_wo": question(number),
            "query_cot": question(number), "question_type": "free-form", "problem_version": "Text Lite",
            "answer": str(number + 1), "image": cell()}  # fmt: skip


def _simplevqa(number: int) -> Row:
    return {"data_id": number, "image": b64encode(cell()["bytes"]).decode(), "question": question(number),
            "answer": str(number + 1)}  # fmt: skip


def _countbenchqa(number: int) -> Row:
    return {"question": question(number), "number": number + 1, "image": cell()}


def _charxiv(number: int) -> Row:
    asked = {f"descriptive_q{at}": kind for at, kind in enumerate((1, 10, 17, 19), 1)}
    answers = {f"descriptive_a{at}": text for at, text in enumerate(("Sums", "2", "7", "1"), 1)}
    return {**asked, **answers, "subplot_loc": None, "subplot_row": 0, "subplot_col": 0, "image": cell(),
            "reasoning_q": question(number), "reasoning_q_source": 1, "reasoning_a": str(number + 1)}  # fmt: skip


_HUB = "lmms-lab-encoder"
DATA_SETS = (
    DataSet(f"{_HUB}/GQA", "testdev", _gqa, config="testdev_balanced_instructions"),
    DataSet(f"{_HUB}/GQA", "testdev", _gqa_image, config="testdev_balanced_images"),
    *(DataSet("BLINK-Benchmark/BLINK", "val", _blink, config=name) for name in _BLINK),
    DataSet(f"{_HUB}/ai2d", "test", _ai2d),
    DataSet(f"{_HUB}/RealWorldQA", "test", _realworldqa),
    DataSet("echo840/OCRBench", "test", _ocrbench),
    DataSet(f"{_HUB}/textvqa", "validation", _textvqa),
    DataSet(f"{_HUB}/DocVQA", "validation", _docvqa, config="DocVQA"),
    DataSet(f"{_HUB}/DocVQA", "validation", _docvqa, config="InfographicVQA"),
    DataSet(f"{_HUB}/ChartQA", "test", _chartqa),
    DataSet(f"{_HUB}/SEED-Bench", "test", _seedbench),
    DataSet(f"{_HUB}/ScienceQA", "test", _scienceqa, config="ScienceQA-IMG"),
    DataSet(f"{_HUB}/MMMU", "validation", _mmmu),
    DataSet("MMMU/MMMU_Pro", "test", _mmmu_pro, config="standard (10 options)"),
    DataSet("MMMU/MMMU_Pro", "test", _mmmu_pro_vision, count=1, config="vision"),
    DataSet("Lin-Chen/MMStar", "val", _mmstar),
    DataSet(f"{_HUB}/MMBench", "dev", _mmbench, config="en"),
    DataSet(f"{_HUB}/MMVet", "test", _mmvet),
    DataSet("AI4Math/MathVista", "testmini", _mathvista),
    DataSet("We-Math/We-Math", "testmini", _wemath, count=len(_WEMATH)),
    DataSet("kcz358/DynaMath", "test", _dynamath),
    DataSet("MathLLMs/MathVision", "test", _mathvision),
    DataSet("CaraJ/MathVerse-lmmseval", "testmini", _mathverse, config="testmini"),
    DataSet("m-a-p/SimpleVQA", "test", _simplevqa),
    DataSet("vikhyatk/CountBenchQA", "test", _countbenchqa),
    DataSet("princeton-nlp/CharXiv", "validation", _charxiv, count=4),
)
"""The data sets of the papers' benchmarks that lmms-eval measures."""


def write_data_sets(hub: Path, data_sets: Iterable[DataSet] = DATA_SETS) -> None:
    """Write data sets to a folder; a program that works in it finds them by their names on the Hub."""
    configs: dict[str, list[Row]] = {}
    for data_set in data_sets:
        folder = "".join(letter for letter in data_set.config if letter.isalnum())
        rows = [data_set.row(number) for number in range(data_set.count)]
        table = pa.Table.from_pylist(rows)
        images: Row = {name: {"_type": "Image"} for name in table.column_names if _holds_images(rows, name)}
        lists = {
            name: {"feature": {"_type": "Image"}, "_type": "List"} for name in images if isinstance(rows[0][name], list)
        }
        features = json.dumps({"info": {"features": images | lists}})
        path = hub / data_set.name / folder / "0.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(table.replace_schema_metadata({"huggingface": features}), path)
        files = [{"split": data_set.split, "path": f"{folder}/*.parquet"}]
        configs.setdefault(data_set.name, []).append({"config_name": data_set.config, "data_files": files})
    for name, of_name in configs.items():
        (hub / name / "README.md").write_text(f"---\n{yaml.safe_dump({'configs': of_name})}---\n")


def _holds_images(rows: list[Row], name: str) -> bool:
    if name.startswith("image_") and name != "image_path":
        return not isinstance(rows[0][name], str)
    value = rows[0][name]
    return isinstance(value[0] if isinstance(value, list) else value, dict) and name != "metadata"
