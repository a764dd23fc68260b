"""Responses that are images, end to end: judge, scorecard, rollouts, the mirror in a store, and the stage's page.

The training runs in a process of its own, so that the memory is its own; the judge answers over HTTP.
"""

import base64
import io
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from image_judge import COLOURS, colour_judge, main_colour
from image_stage import BROKEN, GROUP, drawn
from PIL import Image
from report_page import Page, text_of
from support_paths import SUPPORT_PATHS

from rubricworks.data.response_images import IMAGES, ResponseImages, response_columns, response_of
from rubricworks.data.shards import TableFolder
from rubricworks.data.tables import read_rows
from rubricworks.reports.run_folder import RunFolder
from rubricworks.reports.stage_page import show_stage
from rubricworks.reports.training import rollout_groups, training
from rubricworks.rubrics import Response, Scorecard
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job, close_job, open_job
from rubricworks.runtime.store.attempts import begin_attempt, read_index
from rubricworks.runtime.store.downloads import fetch_input
from rubricworks.runtime.store.mirror import Mirror
from rubricworks.runtime.store.run_state import RunState
from rubricworks.runtime.store.workspace import workspace_path
from rubricworks.storage import open_bucket

FEW, MANY = 200, 1_000
REWARDS = {"red": 3 / 6, "green": 2 / 6, "blue": 1 / 6}
"""Of the rubric's weights 3, 2 and 1, the share of the one colour that an image has."""


def train(run: str, url: str, images: int) -> dict[str, int]:
    config = {"judge": {"url": url, "model": "judge"}, "images": images}
    command = [sys.executable, "-m", "image_stage", run, json.dumps(config)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(SUPPORT_PATHS)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def judge(serve):
    """A judge that remembers no request: each holds an image."""

    def answer(number, body):
        said = colour_judge(number, body)
        server.heard[-1].body, server.heard[-1].text = {}, ""
        return said

    server = serve(answer)
    return server


@pytest.mark.long
def test_a_thousand_images_are_judged_stored_mirrored_and_shown(run, judge, tmp_path, monkeypatch):
    few = train(f"{run}-few", judge.url, FEW)
    many = train(run, judge.url, MANY)

    assert (few["encoded"], many["encoded"]) == (FEW - 1, MANY - 1), (
        "each once, for three criteria; the broken one never"
    )
    assert len(judge.chats) == 3 * (FEW - 1 + MANY - 1)
    of_more_images = many["bytes"] - few["bytes"]
    assert of_more_images > 15_000_000
    assert many["peak"] - few["peak"] < of_more_images / 5, "memory does not grow with the images"

    monkeypatch.setenv("RUBRICWORKS_WORKSPACE", str(tmp_path / "another machine"))
    out = workspace_path(run) / "image_stage"
    fetch_input(f"{run}/image_stage", out)
    images = ResponseImages.of_table(out / "rollouts")
    for number, row in enumerate(read_rows(out / "rollouts")):
        response = images.read(response_of(row))
        assert response.image == drawn(number)
        expected = None if number == 4 else pytest.approx(REWARDS[list(COLOURS)[number % 3]])
        assert row["reward"] == expected
        assert row["sample_id"] == f"prompt-{number // GROUP}"
    assert number == MANY - 1
    cards = [Scorecard.model_validate_json(row["scorecard"]) for row in read_rows(out / "scorecards")]
    assert [card.response.key for card in cards] == [row["response"] for row in read_rows(out / "rollouts")]
    letters = list(read_rows(out / "dead_letters"))
    assert {letter["reason"] for letter in letters} == {"unreadable"}
    assert {images.read(response_of(letter)).image for letter in letters} == {BROKEN}
    assert len(letters) == len(COLOURS)

    page = tmp_path / "page.html"
    show_stage(RunFolder(out.parent, "image_stage"), lambda: [training, rollout_groups], str(page))
    html = page.read_text()
    assert "could not be made" not in html, text_of(html)[:600]
    shown = [attributes["src"] for tag, attributes in Page(html).tags if tag == "img"]
    pictures = [base64.b64decode(source.removeprefix("data:image/jpeg;base64,")) for source in shown]
    assert [main_colour(picture) for picture in pictures[:GROUP]] == ["red", "red", "green", "blue"], "the best first"
    assert len(pictures) == 2 * GROUP
    assert all(max(Image.open(io.BytesIO(picture)).size) <= 300 for picture in pictures)


def mirror_of(uri: str, job: Job) -> Mirror:
    bucket = open_bucket(uri)
    state = RunState(bucket, job.run, job.stage)
    return Mirror(bucket, job.run, job.stage, begin_attempt(bucket, job.stage), read_index(bucket, job.stage), state)


def opened(uri: str) -> tuple[Job, TableFolder, ResponseImages]:
    """A stage that writes rollouts, its table, and its images."""
    folder = workspace_path(uri)
    job = open_job("train_policy", StageConfig(), folder, {})
    table = TableFolder(job.out / "rollouts", "rollouts", job.made_by, 1)
    with table.locked():
        table.begin()
    return job, table, ResponseImages(job.out / IMAGES)


def rollout(step: int, response: Response) -> dict[str, object]:
    return {"step": step, "sample_id": "s", "tokens": 1, **response_columns(response)}


def test_an_image_that_no_row_names_is_deleted_from_the_store_too(run):
    job, table, images = opened(run)
    named, stray = (Response.of_image(drawn(number)) for number in (0, 1))
    mirror = mirror_of(run, job)
    images.add(named)
    images.add(stray)
    table.commit_shard(0, [rollout(1, named)])
    mirror.push()
    stored = open_bucket(run)
    assert {Path(item.key).stem for item in stored.objects("train_policy/images/")} == {named.digest, stray.digest}
    table.finish(1)
    close_job(job, 1.0)
    mirror.finish()
    assert {Path(item.key).stem for item in stored.objects("train_policy/images/")} == {named.digest}
    assert [path for path in read_index(stored, "train_policy") if "/images/" in path] == [
        f"train_policy/images/{named.digest[:2]}/{named.digest}.png"
    ]


def test_stored_row_has_its_image_whatever_writer_and_mirror_do(run, monkeypatch):
    """A step is committed each time that the mirror has looked into one of the first folders."""
    job, table, images = opened(run)
    mirror = mirror_of(run, job)
    walk, steps = os.walk, itertools.count()

    def walk_while_another_writes(*args, **options):
        for number, entry in enumerate(walk(*args, **options)):
            if number < 3:
                step = next(steps)
                response = Response.of_image(drawn(10 + step))
                images.add(response)
                table.commit_shard(step, [rollout(step, response)])
            yield entry

    monkeypatch.setattr("rubricworks.runtime.store.mirror.os.walk", walk_while_another_writes)
    shards = 0
    for _ in range(3):
        mirror.push()
        index = read_index(open_bucket(run), "train_policy")
        for path in index:
            if path.endswith(".parquet"):
                shards += 1
                (row,) = pq.read_table(job.run / path).to_pylist()
                assert f"train_policy/images/{row['response'][:2]}/{row['response']}.png" in index
    assert shards > 5
