"""Export of pictures and prompts for a text-to-image run.

folder/pictures/pairs.parquet     image (PNG) and caption: what a generator is pretrained on
folder/pictures/prompts.jsonl     prompts to train on, each at three lengths
folder/pictures/geneval.jsonl     held-out prompts in GenEval's form: prompt, tag, include, exclude
folder/pictures/dpg.csv           questions about the held-out prompts in DPG-Bench's form
"""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rubricworks.data.images import png_bytes
from rubricworks.errors import UserError
from rubricworks.world.pictures.criteria import write_questions
from rubricworks.world.pictures.drawing import draw
from rubricworks.world.pictures.prompts import TASKS, TEMPLATES, Task, Wish, pairs, wishes
from rubricworks.world.scene.scene import rng_of
from rubricworks.world.scene.scene_index import PICTURES

HELD_OUT_PER_TASK = 24
"""Held-out prompts of a task, or one wording of each content of a small one."""
_ROWS = 4096


def export_pictures(
    folder: Path | str, *, seed: int, count: int, mismatched: float = 0.0, coloured: float = 0.0
) -> Path:
    """Write `count` captioned pictures and all prompts, and return their folder. The same call writes the same bytes.

    Args:
        mismatched: share of the captions that describe another picture.
        coloured: share of the captions that say every shape's colour.
    """
    if count < 1:
        raise UserError(f"{count} pictures are asked for; export at least 1")
    out = Path(folder) / PICTURES
    out.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([("image", pa.binary()), ("caption", pa.string())])
    with pq.ParquetWriter(out / "pairs.parquet", schema) as writer:
        rows = (
            {"image": png_bytes(draw(pair.things)), "caption": pair.caption}
            for pair in pairs(seed, count, mismatched=mismatched, coloured=coloured)
        )
        batch = []
        for row in rows:
            batch.append(row)
            if len(batch) == _ROWS:
                writer.write_table(pa.Table.from_pylist(batch, schema=schema))
                batch = []
        if batch:
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))
    with (
        (out / "prompts.jsonl").open("w", encoding="utf-8") as train,
        (out / "geneval.jsonl").open("w", encoding="utf-8") as held_out,
    ):
        for task in TASKS:
            evaluated, rest = _split(seed, task)
            for wish, text in evaluated:
                held_out.write(json.dumps({**wish.metadata(), "prompt": text}) + "\n")
            for texts in rest:
                train.write(json.dumps({"prompts": texts, "tag": task}) + "\n")
    write_questions(out / "dpg.csv", ((text, wish) for task in TASKS for wish, text in _split(seed, task)[0]))
    return out


def _split(seed: int, task: Task) -> tuple[list[tuple[Wish, str]], list[list[str]]]:
    """Held-out prompts of a task, and the wordings of each that may be trained on.

    A large task holds out contents, in any wording; a small one, whose contents are few, holds out wordings.
    """
    rng = rng_of("held-out prompts", seed, task)
    every = wishes(task)
    if len(every) >= 2 * HELD_OUT_PER_TASK:
        chosen = {wish: rng.randrange(len(TEMPLATES)) for wish in rng.sample(every, HELD_OUT_PER_TASK)}
        return (
            [(wish, TEMPLATES[at].format(wish.words)) for wish, at in chosen.items()],
            [[template.format(wish.words) for template in TEMPLATES] for wish in every if wish not in chosen],
        )
    evaluated, rest = [], []
    for wish in every:
        texts = [template.format(wish.words) for template in TEMPLATES]
        evaluated.append((wish, texts.pop(rng.randrange(len(texts)))))
        rest.append(texts)
    return evaluated, rest
