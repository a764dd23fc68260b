"""A run's samples with their rubrics as a training set for other programs: image, prompt, rubric.

Each format is what its program reads from a folder without further settings. `trl` and `verl` have the columns that
our rewards for them read (`adapters.trl`, `adapters.verl`); `hf` is a plain data set; `csv` and `jsonl` are the
`imagefolder` form of Hugging Face, images as files beside a `metadata` file. Samples without a rubric stay out.
"""

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from rubricworks.data.source_entries import file_name
from rubricworks.data.spreadsheet_cells import guard_cell
from rubricworks.data.tables import Sample, read_rows, read_rubrics, read_samples
from rubricworks.errors import UserError
from rubricworks.rubrics import Rubric
from rubricworks.runs.input_tables import input_tables
from rubricworks.storage import write_atomic

Format = Literal["trl", "verl", "csv", "jsonl", "hf"]
Row = dict[str, Any]
_SPLITS = {"train": "train", "held_out": "test"}
"""Split of a sample → name of the split in a training set, which `datasets` and verl read by the file's name."""
_BATCH = 64
_TEXTS = ("sample_id", "file_name", "rubric", "question", "answer")
_MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
_IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def write_training_set(run: Path, form: Format, out: Path) -> dict[str, int]:
    """Write the training set of a run into a new folder; return the number of rows by split.

    Raises:
        UserError: the folder exists, or the run has no samples with rubrics.
    """
    if out.exists():
        raise UserError(f"--out {out} is there already; name a new folder")
    tables = input_tables(run)
    if "rubrics" not in tables:
        raise UserError(f"{run}: no finished rubrics of a run are here; a training set needs them")
    rubrics = read_rubrics(Path(tables["rubrics"]))
    chosen = (
        (sample, rubrics[sample.sample_id])
        for sample in read_samples(tables["samples"], *_SPLITS)
        if sample.sample_id in rubrics
    )
    if form in ("csv", "jsonl"):
        counts = _write_image_folder(chosen, form, out)
    else:
        has_images = any(row["image_digest"] for row in read_rows(tables["samples"], columns=["image_digest"]))
        counts = _write_parquet(chosen, *_parquet_form(form, has_images=has_images), out)
    if not counts:
        raise UserError(f"{run}: none of its samples has a rubric")
    return counts


def _write_parquet(
    rows: Iterator[tuple[Sample, Rubric]], make_row: Callable[[Sample, Rubric], Row], schema: pa.Schema, out: Path
) -> dict[str, int]:
    """One Parquet file for each split."""
    counts: dict[str, int] = {}
    writers: dict[str, pq.ParquetWriter] = {}
    out.mkdir(parents=True)
    try:
        while batch := list(islice(rows, _BATCH)):
            for split in _SPLITS.values():
                some = [make_row(sample, rubric) for sample, rubric in batch if _SPLITS[sample.split] == split]
                if not some:
                    continue
                if split not in writers:
                    writers[split] = pq.ParquetWriter(out / f"{split}.parquet", schema)
                writers[split].write_table(pa.Table.from_pylist(some, schema=schema))
                counts[split] = counts.get(split, 0) + len(some)
    finally:
        for writer in writers.values():
            writer.close()
    return counts


def _write_image_folder(rows: Iterator[tuple[Sample, Rubric]], form: Format, out: Path) -> dict[str, int]:
    """Write a `metadata` file and its images into each split's folder."""
    lines: dict[str, list[Row]] = {}
    for sample, rubric in rows:
        split = _SPLITS[sample.split]
        texts: Row = {"sample_id": sample.sample_id, "prompt": sample.prompt, "rubric": rubric.model_dump_json()}
        row = texts | {"source": sample.source, "question": sample.question, "answer": sample.answer}
        if sample.image:
            name = f"{sample.sample_id}{_suffix(sample.image)}"
            write_atomic(out / split / name, sample.image)
            row = {"file_name": name} | row
        lines.setdefault(split, []).append(row)
    for split, of_split in lines.items():
        text = (
            _csv(of_split) if form == "csv" else "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in of_split)
        )
        write_atomic(out / split / f"metadata.{form}", text.encode())
    return {split: len(of_split) for split, of_split in lines.items()}


def _csv(rows: Sequence[Row]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)))
    writer.writeheader()
    writer.writerows({name: guard_cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _suffix(image: bytes) -> str:
    return ".png" if image.startswith(b"\x89PNG") else ".jpg"


def _texts(sample: Sample, rubric: Rubric) -> Row:
    named = {"sample_id": sample.sample_id, "file_name": file_name(sample.source), "rubric": rubric.model_dump_json()}
    return named | {"question": sample.question, "answer": sample.answer}


def _image(sample: Sample) -> Row | None:
    return {"bytes": sample.image, "path": file_name(sample.source)} if sample.image else None


def _trl_row(sample: Sample, rubric: Rubric) -> Row:
    """Columns of `GRPOTrainer` and of `adapters.trl.RubricReward`."""
    prompt = [{"role": "user", "content": sample.prompt}]
    return {"prompt": prompt, "image": _image(sample), **_texts(sample, rubric)}


def _hf_row(sample: Sample, rubric: Rubric) -> Row:
    return {"image": _image(sample), "prompt": sample.prompt, **_texts(sample, rubric)}


def _verl_row(sample: Sample, rubric: Rubric) -> Row:
    """Columns of verl's `RLHFDataset` and of `adapters.verl.RubricRewardManager`."""
    mark = "<image>" * len(sample.images)
    texts = _texts(sample, rubric)
    return {
        "data_source": "rubricworks",
        "prompt": [{"role": "user", "content": mark + sample.prompt}],
        "images": [{"bytes": image} for image in sample.images],
        "ability": sample.task or "caption",
        "reward_model": {"style": "rubric", "ground_truth": texts.pop("rubric")},
        "extra_info": texts,
    }


def _parquet_form(form: Format, *, has_images: bool) -> tuple[Callable[[Sample, Rubric], Row], pa.Schema]:
    """A format's rows and their schema, which for `trl` and `hf` tells `datasets` to decode the images."""
    if form == "verl":
        return _verl_row, _VERL
    prompt, feature = (_MESSAGES, _MESSAGE_FEATURE) if form == "trl" else (pa.string(), _TEXT_FEATURE)
    columns: dict[str, tuple[pa.DataType, Row]] = {"prompt": (prompt, feature)}
    if has_images:
        columns["image"] = (_IMAGE, {"_type": "Image"})
    columns |= {name: (pa.string(), _TEXT_FEATURE) for name in _TEXTS}
    features = {name: feature for name, (_, feature) in columns.items()}
    schema = pa.schema(
        [(name, kind) for name, (kind, _) in columns.items()],
        metadata={"huggingface": json.dumps({"info": {"features": features}})},
    )
    return _trl_row if form == "trl" else _hf_row, schema


_TEXT_FEATURE = {"dtype": "string", "_type": "Value"}
_MESSAGE_FEATURE = {"feature": {"role": _TEXT_FEATURE, "content": _TEXT_FEATURE}, "_type": "List"}
_VERL = pa.schema(
    [
        ("data_source", pa.string()),
        ("prompt", _MESSAGES),
        ("images", pa.list_(pa.struct([("bytes", pa.binary())]))),
        ("ability", pa.string()),
        ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.string())])),
        ("extra_info", pa.struct([(name, pa.string()) for name in _TEXTS if name != "rubric"])),
    ]
)
