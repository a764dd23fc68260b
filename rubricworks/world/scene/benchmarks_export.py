"""Export of five small benchmarks about scenes: counting, colours, relations, reading, boxes.

folder/benchmarks/scene_count.parquet   image, question, answer, task (`scene_count`), options; one file per benchmark
                  scene_count.yaml      the same as a task of lmms-eval (`--include_path folder/benchmarks`)
                  scene_rules.py        its prompt and its rule: the last box of the answer, or the whole answer

Each scene has one question, and no scene is one of `export_scenes` with the same seed.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rubricworks.errors import UserError
from rubricworks.world.scene.questions import Query, Task, answer_query, draw_query, write_question
from rubricworks.world.scene.render import render_png
from rubricworks.world.scene.scene import Scene, generate_scenes, rng_of

BENCHMARKS: dict[str, Task] = {
    "scene_count": "count",
    "scene_colour": "colour",
    "scene_relation": "relation",
    "scene_reading": "word",
    "scene_box": "box",
}
"""Benchmark → task of its questions."""
_SEED = 1_000_003
"""Added to the seed, so that the scenes are others than the training's."""
_YAML = """\
task: {name}
dataset_path: parquet
dataset_kwargs:
  data_files:
    test: {file}
test_split: test
output_type: generate_until
doc_to_visual: !function scene_rules.doc_to_visual
doc_to_text: !function scene_rules.doc_to_text
doc_to_target: answer
process_results: !function scene_rules.process_results
generation_kwargs:
  max_new_tokens: 64
  temperature: 0
metric_list:
  - metric: right
    aggregation: mean
    higher_is_better: true
metadata:
  - version: 1.0
"""
_RULES = '''\
"""Prompt and rule of the scene world's benchmarks for lmms-eval."""

import re
from io import BytesIO

from PIL import Image

OVERLAP = 0.5


def doc_to_visual(doc):
    image = doc["image"]
    return [(image if hasattr(image, "convert") else Image.open(BytesIO(image))).convert("RGB")]


def doc_to_text(doc, lmms_eval_specific_kwargs=None):
    return doc["question"]


def process_results(doc, results):
    boxes = re.findall(r"\\\\boxed\\{([^{}]*)\\}", results[0])
    answer = (boxes[-1] if boxes else results[0]).strip().strip(".").lower()
    target = doc["answer"].lower()
    if doc["task"] == "scene_box":
        return {"right": float(overlap(numbers(answer), numbers(target)) >= OVERLAP)}
    return {"right": float(answer == target)}


def numbers(text):
    values = [float(number) for number in re.findall(r"-?\\d+(?:\\.\\d+)?", text)]
    return values if len(values) == 4 else None


def overlap(a, b):
    if not a or not b:
        return 0.0
    across = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    down = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    area = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - across * down
    return across * down / area if area > 0 else 0.0
'''
_SCHEMA = pa.schema(
    [
        pa.field("image", pa.binary(), nullable=False),
        *(pa.field(name, pa.string(), nullable=False) for name in ("question", "answer", "task")),
    ]
)


def export_benchmarks(folder: Path | str, *, seed: int, count: int) -> Path:
    """Write the five benchmarks with `count` questions each, and return their folder.

    The same call writes the same questions.
    """
    place = (Path(folder) / "benchmarks").absolute()
    try:
        place.mkdir(parents=True, exist_ok=True)
        for number, (name, task) in enumerate(BENCHMARKS.items()):
            rows = [
                {"image": render_png(scene), "question": write_question(query), "answer": answer, "task": name}
                for scene, query, answer in _questions(task, seed + _SEED + number, count)
            ]
            file = place / f"{name}.parquet"
            pq.write_table(pa.Table.from_pylist(rows, schema=_SCHEMA), file)
            (place / f"{name}.yaml").write_text(_YAML.format(name=name, file=file), encoding="utf-8")
        (place / "scene_rules.py").write_text(_RULES, encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"{place}: cannot write benchmarks ({error.strerror or error}); choose another folder or make room"
        ) from error
    return place


def _questions(task: Task, seed: int, count: int) -> Iterator[tuple[Scene, Query, str]]:
    """Scenes with a question of the task; scenes that allow none are passed over."""
    drawn = 0
    for index, scene in enumerate(generate_scenes(seed, 100 * count)):
        query = draw_query(scene, task, rng_of("benchmark", seed, index))
        answer = answer_query(query, scene) if query else None
        if query is None or answer is None:
            continue
        yield scene, query, answer
        drawn += 1
        if drawn == count:
            return
