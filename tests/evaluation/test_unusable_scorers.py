"""Scorers that cannot score: a program that is missing, a judge that reads nothing."""

import os

import pytest
from caption_suite import captions, world, write_responses
from cli_fixtures import run_cli
from scripted_server import ScriptedServer, say


@pytest.mark.slow
def test_an_evaluation_whose_only_scorer_cannot_score_fails(tmp_path, monkeypatch):
    with world(tmp_path / "world", 2):
        images = tmp_path / "world" / "images"
        names = sorted(path.name for path in images.glob("*.png"))
        files = write_responses(tmp_path, names, {"mine": ["a circle", "a square"]})
        monkeypatch.setenv("PATH", os.path.dirname(os.__file__))  # no java there
        done = run_cli("evaluate", *files, "--on", images, "--with", "coco", "--out", tmp_path / "out")
    assert done.code == 2
    assert "coco cannot score: there is no `java` on the PATH" in done.err


@pytest.mark.slow
def test_a_judge_that_always_answers_a_is_refused(tmp_path):
    server = ScriptedServer(lambda number, body: say('{"reason": "it is better", "judgment": "A"}'))
    with world(tmp_path / "world", 24):
        images = tmp_path / "world" / "images"
        names = sorted(path.name for path in images.glob("*.png"))
        files = write_responses(tmp_path, names, captions(24))
        judge = ["--judge", f"judge@{server.url}"]
        done = run_cli("evaluate", *files, "--on", images, "--with", "arena", *judge, "--out", tmp_path / "out")
    server.close()
    assert done.code == 2
    assert "prefers the caption in position A, whichever it is" in done.err
