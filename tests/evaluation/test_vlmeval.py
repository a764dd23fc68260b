"""ms-vlmeval's files, in the forms in which 0.0.20 wrote them: read, verified, and refused where they mislead."""

import asyncio
import csv
import json
import stat
import sys
from pathlib import Path

import pytest

from rubricworks.errors import UserError
from rubricworks.evaluation.suites.vlmeval import VLMEVAL, read_task, run_tasks

FAILED = "Failed to obtain answer via API."
OCRVQA = [
    {"index": "0", "question": "Who?", "answer": "['Ann\nLee']", "prediction": "Ann Lee", "eval_score": "1.0"},
    {"index": "1", "question": "Who?", "answer": "['Bo']", "prediction": 'the "Bo"\tbook', "eval_score": "0.0"},
    {"index": "2", "question": "Who?", "answer": "['Cy']", "prediction": FAILED, "eval_score": "0.0"},
]
AOKVQA = [
    {"index": "7", "question": "Which?", "A": "red", "B": "blue", "answer": "A", "prediction": "A", "hit": "1"},
    {"index": "8", "question": "Which?", "A": "red", "B": "blue", "answer": "B", "prediction": "A", "hit": "0"},
]


def write(folder: Path, task: str, ending: str, rows: list[dict], metrics: dict, **status: str) -> None:
    place = folder / "model"
    place.mkdir(parents=True, exist_ok=True)
    asked = [{name: row[name] for name in row if name not in ("eval_score", "hit")} for row in rows]
    for name, lines in ((f"model_{task}.tsv", asked), (f"model_{task}{ending}.tsv", rows)):
        with (place / name).open("w", newline="") as file:
            writer = csv.DictWriter(file, lines[0], delimiter="\t", quoting=csv.QUOTE_ALL)
            writer.writeheader()
            writer.writerows(lines)
    known = {task: {"status": "done", "metrics": metrics, **status}}
    (place / "status.json").write_text(json.dumps({"datasets": known}))


def test_a_request_that_was_not_answered_is_missing_and_not_wrong(tmp_path):
    write(tmp_path, "OCRVQA_TESTCORE", "_results", OCRVQA, {"Overall": 100 / 3})
    result = read_task(tmp_path, "OCRVQA_TESTCORE", "eval_score")
    assert result.samples == {"0": 1.0, "1": 0.0, "2": None}
    assert result.value == 1 / 2


def test_multiple_choice_has_its_figure_by_split(tmp_path):
    write(tmp_path, "A-OKVQA", "_exact_matching_result", AOKVQA, {"split=val|Overall": 0.5})
    result = read_task(tmp_path, "A-OKVQA", "hit")
    assert (result.value, result.samples) == (0.5, {"7": 1.0, "8": 0.0})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda lines: lines[:-1], "1 scored samples of A-OKVQA, 2 were to be answered"),
        (lambda lines: [lines[0], lines[1], lines[2].replace('"0"', '"1"')], "have the mean 1.0000, and 0.5 is"),
        (lambda lines: [lines[0].replace("hit", "hut"), *lines[1:]], "not ms-vlmeval's results of A-OKVQA"),
    ],
)  # fmt: skip
def test_files_that_do_not_hold_together_are_refused(tmp_path, spoil, message):
    write(tmp_path, "A-OKVQA", "_exact_matching_result", AOKVQA, {"split=val|Overall": 0.5})
    path = tmp_path / "model" / "model_A-OKVQA_exact_matching_result.tsv"
    path.write_text("".join(spoil(path.read_text().splitlines(keepends=True))))
    with pytest.raises(UserError, match=message):
        read_task(tmp_path, "A-OKVQA", "hit")


def test_an_endpoint_that_answered_nothing_is_no_score_of_0(tmp_path):
    write(tmp_path, "OCRVQA_TESTCORE", "_results", OCRVQA[2:], {"Overall": 0.0})
    with pytest.raises(UserError, match="answered none of 1 requests of OCRVQA_TESTCORE"):
        read_task(tmp_path, "OCRVQA_TESTCORE", "eval_score")


def launcher(folder: Path, monkeypatch, program: str) -> None:
    """An executable in place of the environment's Python, which runs a program with the harness's arguments."""
    (folder / "program.py").write_text(program)
    path = folder / "python"
    path.write_text(f'#!/bin/sh\nshift 2\nexec {sys.executable} {folder / "program.py"} "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv(VLMEVAL.variable, str(path))


OPTIONS = {"url": "http://127.0.0.1:9/v1", "model": "org/mine", "api_key": "its-key"}
DIES = """
import json, pathlib, sys
place = pathlib.Path(sys.argv[sys.argv.index("--work-dir") + 1]) / "model"
place.mkdir()
(place / "status.json").write_text(json.dumps(
    {"datasets": {"A-OKVQA": {"status": "done", "metrics": {}, "error_message": "the file cannot be downloaded"}}}))
"""


def test_a_program_that_fails_with_exit_status_0_is_refused_by_its_reason(tmp_path, monkeypatch):
    launcher(tmp_path, monkeypatch, DIES)
    with pytest.raises(UserError, match=r"no results of A-OKVQA \(exit 0\): the file cannot be downloaded"):
        asyncio.run(run_tasks({"A-OKVQA": "hit"}, **OPTIONS, folder=tmp_path / "runs"))


def test_the_key_is_in_no_file_and_no_argument(tmp_path, monkeypatch):
    launcher(tmp_path, monkeypatch, "import os, sys\nprint(sys.argv[1:], os.environ['LMDEPLOY_API_KEY'][:3])")
    with pytest.raises(UserError, match="A-OKVQA"):
        asyncio.run(run_tasks({"A-OKVQA": "hit"}, **OPTIONS, folder=tmp_path / "runs"))
    files = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    assert len(files) == 2
    assert not any("its-key" in path.read_text() for path in files)
    assert "its" in (tmp_path / "runs" / "A-OKVQA" / "log.txt").read_text()
    settings = json.loads((tmp_path / "runs" / "A-OKVQA" / "config.json").read_text())
    assert settings["model"]["model"]["api_base"] == "http://127.0.0.1:9/v1/chat/completions"


def test_verified_results_are_not_measured_again(tmp_path, monkeypatch):
    monkeypatch.setenv(VLMEVAL.variable, "/no/such/python")
    write(tmp_path / "A-OKVQA", "A-OKVQA", "_exact_matching_result", AOKVQA, {"split=val|Overall": 0.5})
    results = asyncio.run(run_tasks({"A-OKVQA": "hit"}, **OPTIONS, folder=tmp_path))
    assert results["A-OKVQA"].value == 0.5
