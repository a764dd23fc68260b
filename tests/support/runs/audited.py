"""Labelled responses to questions about scenes, the samples they belong to, and a server of the world's models."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from rubricworks.data.manifest import canonical_json
from rubricworks.data.tables import build_table
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.world.scene.answers import call_of, read_response, write_response
from rubricworks.world.scene.captions import describe
from rubricworks.world.scene.checklist_sentences import answer_criterion, step_criterion
from rubricworks.world.scene.faults import perceive
from rubricworks.world.scene.questions import Query, answer_query, subjects_of, write_question
from rubricworks.world.scene.questions_export import RESPONSE_NOISE, world_questions
from rubricworks.world.scene.render import render_png
from rubricworks.world.scene.scene import Scene, generate_scenes, rng_of
from rubricworks.world.scene.scene_index import SceneIndex, pixel_digest
from rubricworks.world.server import make_app

SEED = 3


def world_rubric(query: Query, scene: Scene) -> Rubric:
    """The checklist of a question without options."""
    answer = answer_query(query, scene)
    references = {
        "count": f"expr_verify(target={answer!r})",
        "word": f"text_verify(target={answer!r}, ignore_case=True)",
        "box": f"bbox_verify(target={answer})",
    }
    final = Criterion(
        criterion=answer_criterion(query, False), reference=references.get(query.task, answer), weight=3, essential=True
    )
    steps = [
        Criterion(criterion=step_criterion(item.cell), reference=f"a {describe(item)}", weight=1, essential=False)
        for item in subjects_of(query, scene)
    ]
    return Rubric(criteria=(final, *steps))


def label_of(rubric: Rubric, response: str) -> str:
    """Label of a response by a reader without faults."""
    statement = read_response(response)
    items: dict[str, list[dict[str, Any]]] = {"essential": [], "additional": []}
    for criterion in rubric.criteria:
        if criterion.verifier:
            credit: object = call_of(criterion.verifier, statement.boxed or "")
        elif criterion.essential:
            credit = float(statement.boxed == criterion.reference)
        else:
            cell = criterion.criterion.rstrip(".").rpartition(" ")[2]
            remote = [item for item in statement.objects if item.cell == cell]
            expected = criterion.reference.split()[1:]
            right = [a == b for a, b in zip(remote[0][1:], expected, strict=True)] if remote else [False] * 3
            credit = 1.0 if all(right) else 0.5 if right[1] or right[2] else 0.0
        part = "essential" if criterion.essential else "additional"
        items[part].append({"criterion": criterion.criterion, "rationale": "", "credit": credit})
    return json.dumps({"thought": "", **items})


def labelled_rows(count: int, train: int = 20) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(genrm_data rows, samples rows): `train` of the train split, the rest test, one question a scene."""
    data, samples = [], []
    for number, (scene, requests) in enumerate(world_questions(SEED, count, 1)):
        from rubricworks.world.scene.questions import parse_question

        query = parse_question(requests[0].question)
        assert query is not None
        rng = rng_of("audited", number)
        response = write_response(query, perceive(scene, RESPONSE_NOISE, rng))
        rubric, image = world_rubric(query, scene), render_png(scene)
        name = f"s{number:04}"
        data.append(
            {
                "sample_id": name,
                "split": "train" if number < train else "test",
                "question": write_question(query),
                "response": response,
                "rubric": rubric.model_dump_json(),
                "label": label_of(rubric, response),
                "task": query.task,
                "loses_credit": False,
            }
        )
        samples.append(
            {
                "sample_id": name,
                "split": "train",
                "image": image,
                "image_digest": pixel_digest(image),
                "prompt": write_question(query),
                "references": [],
                "source": name,
                "question": write_question(query),
            }
        )
    return data, samples


def write_stage_table(folder: Path, table: str, rows: list[dict[str, Any]]) -> Path:
    """A table as a finished stage leaves it."""

    async def make_rows(chunk: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return chunk

    made_by = {"stage": table, "config": "c", "inputs": {}, "version": "v"}
    manifest = asyncio.run(build_table(folder, table, rows, make_rows, made_by=made_by, shard_size=500))
    (folder / "done.json").write_bytes(canonical_json({**made_by, "digest": manifest.digest}))
    return folder


def write_labelled(run: Path, count: int, train: int = 20) -> dict[str, str]:
    """The inputs of an audit."""
    data, samples = labelled_rows(count, train)
    return {
        "genrm_data": str(write_stage_table(run / "genrm_data", "genrm_data", data)),
        "samples": str(write_stage_table(run / "samples", "samples", samples)),
    }


@contextmanager
def world_server(count: int) -> Iterator[str]:
    """Base URL of the world's models, which know these scenes."""
    book = SceneIndex({pixel_digest(render_png(scene)): scene for scene in generate_scenes(SEED, count)})
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> web.AppRunner:
        runner = web.AppRunner(make_app(book), access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner

    runner = asyncio.run_coroutine_threadsafe(start(), loop).result(20)
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def audit_config(url: str, judge: str = "weak-scorer", **changes: Any) -> str:
    def model(name: str) -> dict[str, str]:
        return {"url": url, "model": name}

    config = {
        "judge": model(judge),
        "generator": model("abnormal-writer"),
        "red_team": model("red-teamer"),
        "quality_judges": [model("quality-judge-1"), model("quality-judge-2")],
        **changes,
    }
    return json.dumps({name: value for name, value in config.items() if value is not None})
