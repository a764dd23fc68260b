"""A run's folder with rollouts and scorecards as a training writes them, by pyarrow alone."""

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow.parquet as pq
from PIL import Image

from rubricworks.data.schemas import SCHEMA_VERSION, SCHEMAS, table_from_rows

NAMES = ["Names the star", "Says that it is <b>red</b>", "Names nothing else"]
STAGE = "train_policy"
LETTERS_STAGE = "caption_committee"


def png(colour: str = "red") -> bytes:
    """A small picture."""
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4), colour).save(buffer, "PNG")
    return buffer.getvalue()


def rollout(step: int, sample: str, response: str, credits: list[float | None]) -> dict[str, Any]:
    """Columns of a rollout, with its reward from the credits."""
    reward = None if None in credits else sum(credits) / len(credits)
    verdicts = [
        {
            "criterion": name,
            "credit": credit,
            "error": None if credit is not None else "transport",
            "reasoning": "because",
        }
        for name, credit in zip(NAMES, credits, strict=True)
    ]
    return {"step": step, "sample_id": sample, "response": response, "reward": reward, "verdicts": verdicts}


def write_shard(
    run: Path, number: int, rollouts: list[dict[str, Any]], *, graded: list[dict[str, Any]] | None = None
) -> None:
    """Commit a shard of rollouts and of the scorecards of those that were graded, by default all."""
    columns = ("step", "sample_id", "response", "reward")
    rows = [{key: rollout[key] for key in columns} for rollout in rollouts]
    cards = [
        {key: rollout[key] for key in columns}
        | {
            "judge": "judge",
            "scorecard": json.dumps(
                {key: rollout[key] for key in ("sample_id", "response", "verdicts")}
                | {"judge": "judge", "raw": rollout.get("raw", ["{}"])}
            ),
        }
        for rollout in (rollouts if graded is None else graded)
    ]
    advantages = [row | {"tokens": 7, "advantage": 0.5} for row in rows]
    for table, of_table in (("rollouts", advantages), ("scorecards", cards)):
        folder = run / STAGE / table
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(table_from_rows(table, of_table), folder / f"part-{number:05}.parquet")


def write_run(
    folder: Path,
    name: str = "today-1",
    *,
    recipe: str = "quickstart",
    sources: Mapping[str, str] = MappingProxyType({}),
) -> Path:
    """A run of two samples and two steps, which trained and ended.

    Args:
        sources: sample → where its picture came from.
    """
    run = folder / name
    (run / "prepare" / "samples").mkdir(parents=True)
    (run / "recipe.yaml").write_text(f"name: {recipe}\npipeline: rubicap\n")
    samples = [
        {"sample_id": sample, "split": "train", "image": image, "image_digest": None, "prompt": "?", "references": []}
        | {"source": sources.get(sample, ""), "question": None, "answer": None, "task": None, "options": None}
        for sample, image in (("a", png()), ("b", None))
    ]
    pq.write_table(table_from_rows("samples", samples), run / "prepare" / "samples" / "part-00000.parquet")
    for stage in ("prepare", STAGE):
        (run / stage).mkdir(exist_ok=True)
        (run / stage / "made_from.json").write_text("{}")
        (run / stage / "done.json").write_text("{}")
    rollouts = [
        rollout(step, sample, text, credits)
        for step, third in ((1, 0.0), (2, 1.0))
        for sample in ("a", "b")
        for text, credits in (
            ("a red star <script>alert(1)</script>", [1.0, 1.0, third]),
            ("a star", [1.0, 0.0, 0.5]),
            ("", [1.0, 0.0, None]),
        )
    ]
    write_shard(run, 0, rollouts[:6])
    write_shard(run, 1, rollouts[6:])
    (run / STAGE / "steps.jsonl").write_text('{"step": 1, "reward": 0.5}\n{"step": 2, "reward": 0.75}\n{"step": 3,')
    (run / "logs").mkdir()
    (run / "logs" / f"{STAGE}.log").write_text("asked https://user:pa55@host/v1\nended\n")
    (run / "outcome.json").write_text(json.dumps({"state": "SUCCEEDED", "message": "trained"}))
    return run


def write_table(folder: Path, kind: str, rows: list[dict[str, Any]], *, shard: int = 2) -> None:
    """A finished table: its shards, then its manifest; columns that a row leaves out are null or empty."""
    folder.mkdir(parents=True, exist_ok=True)
    empty = {"string": "", "int64": 0, "double": 0.0}
    blank = {field.name: None if field.nullable else empty.get(str(field.type)) for field in SCHEMAS[kind]}
    shards = []
    for number, start in enumerate(range(0, len(rows), shard)):
        some = [{**blank, **row} for row in rows[start : start + shard]]
        path = folder / f"part-{number:05}.parquet"
        pq.write_table(table_from_rows(kind, some), path)
        shards.append({"name": path.name, "rows": len(some), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()})
    manifest = {"table": kind, "schema_version": SCHEMA_VERSION, "rows": len(rows), "shards": shards, "made_by": {}}
    (folder / ".manifest.json").write_text(json.dumps(manifest))


def rubric(*titles: str, rule: str = "Passes if it does.") -> dict[str, Any]:
    """A rubric with these criteria."""
    return {"criteria": [{"criterion": title, "weight": 2.0, "evaluation_rule": rule} for title in titles]}


def write_rubrics(run: Path, stage: str = "synthesize_rubrics", samples: tuple[str, ...] = ("a", "b", "c")) -> None:
    """A rubric set whose criteria the run's training graded, and one that it never did."""
    rows = [
        {"sample_id": sample, "rubric": json.dumps(rubric(*NAMES, "Is short" if sample == "c" else "Is <i>long</i>"))}
        for sample in samples
    ]
    write_table(run / stage, "rubrics", [row | {"writer": "writer-1"} for row in rows])


def finish_tables(run: Path) -> None:
    """Write the manifests of the training's tables."""
    for table in ("rollouts", "scorecards"):
        shards = sorted((run / STAGE / table).glob("part-*"))
        listed = [{"name": shard.name, "rows": 6, "sha256": "0" * 63 + str(at)} for at, shard in enumerate(shards)]
        manifest = {"table": table, "schema_version": 3, "rows": 12, "shards": listed, "made_by": {}}
        (run / STAGE / table / ".manifest.json").write_text(json.dumps(manifest))


def write_letters(run: Path, samples: Sequence[str] = ("0", "1", "2")) -> None:
    """A finished stage with three dead letters."""
    letters = [
        {"sample_id": samples[at], "stage": LETTERS_STAGE, "purpose": "caption", "reason": reason, "attempts": 3}
        | {"message": f"<b>{at}</b> at https://me:pa55word@host/v1", "raw": "{", "request": "d"}
        for at, reason in enumerate(("timeout", "malformed", "timeout"))
    ]
    write_table(run / LETTERS_STAGE, "captions", [])
    write_table(run / LETTERS_STAGE / "dead_letters", "dead_letters", letters)
    plan = json.dumps({"made_by": "m", "shard_size": 2})
    for table in (run / LETTERS_STAGE, run / LETTERS_STAGE / "dead_letters"):
        (table / ".plan.json").write_text(plan)
    (run / LETTERS_STAGE / "made_from.json").write_text("{}")
    (run / LETTERS_STAGE / "done.json").write_text("{}")
