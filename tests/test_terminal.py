"""What commands print of files, models and servers: no character of it moves a terminal's cursor or sets its title."""

import json
import logging
import re

import pytest
from audited import write_stage_table
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr
from served_api import TOKEN, served, wait_for
from trained_run import STAGE, write_run

from rubricworks.platform_api.settings import ApiSettings
from rubricworks.terminal import VisibleLines, echo_file, visible

SEQUENCES = "\x1b]0;owned\x07\x1b[2K\x1b[1A\x9b31m\x08\x7f\u202e\u2066"
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def assert_inert(told):
    assert CONTROL.findall(told.out + told.err) == []
    assert r"\u001b]0;owned\u0007" in told.out + told.err


@given(st.text(st.characters()))
def test_no_text_keeps_a_control_character_and_json_keeps_its_value(text):
    shown = visible(text)
    assert CONTROL.findall(shown) == []
    shown.encode()  # nor half a character
    assert visible(shown) == shown
    quoted = json.dumps(text, ensure_ascii=False)
    assert json.loads(visible(quoted)) == text


@pytest.mark.parametrize("text", ["Ein Bär, 熊 🐻‍❄️ نص עברית\tx", "a\nb", "100 % \\u001b"])
def test_ordinary_text_is_printed_as_it_is(text):
    assert visible(text) == text
    assert visible(text.replace("\n", "\r\n")) == text


def test_a_log_line_shows_what_it_quotes():
    record = logging.LogRecord("rubricworks", logging.INFO, "", 0, "the judge said %s", (SEQUENCES,), None)
    assert CONTROL.findall(VisibleLines("%(message)s").format(record)) == []


def hostile_run(folder):
    run = write_run(folder)
    outcome = json.loads((run / "outcome.json").read_bytes())
    (run / "outcome.json").write_text(json.dumps(outcome | {"message": f"trained {SEQUENCES}"}))
    (run / "logs" / f"{STAGE}.log").write_text(f"loading {SEQUENCES}\n")
    return run


@pytest.mark.parametrize("command", [("runs", "show"), ("runs", "logs")])
def test_texts_of_a_run_folder_are_shown(tell, tmp_path, command):
    run = hostile_run(tmp_path / "runs")
    assert_inert(tell(*command, run.name))


def test_texts_of_a_server_are_shown(tell, tmp_path, monkeypatch):
    run = hostile_run(tmp_path / "stored")
    with served(ApiSettings(storage=str(run.parent), token=SecretStr(TOKEN), index_seconds=0.02)) as url:
        monkeypatch.setenv("RUBRICWORKS_API", url)
        monkeypatch.setenv("RUBRICWORKS_API_TOKEN", TOKEN)
        wait_for(lambda: tell("runs", "show", run.name).code == 0)
        assert_inert(tell("runs", "show", run.name))
        assert_inert(tell("runs", "logs", run.name, STAGE))


def test_names_in_a_leaderboard_are_shown(tell, tmp_path):
    model = f"mine {SEQUENCES}"
    row = {"model": model, "revision": "1", "step": None, "decoding": "greedy", "against": None, "scorer": "likert"}
    row |= {"version": "1", "judge": model, "part": "rating", "value": 0.5, "reason": None, "evidence": None}
    rows = [{"sample_id": str(number), **row} for number in range(4)]
    write_stage_table(tmp_path / "scored" / "score", "scores", rows)
    told = tell("leaderboard", "scored")
    assert told.code == 0
    assert_inert(told)


def test_an_error_shows_what_it_quotes(tell):
    assert_inert(tell("runs", "show", "x", "--runs", f"y{SEQUENCES}"))


def test_a_file_goes_unchanged_into_a_pipe(capfdbinary):
    echo_file(SEQUENCES.encode() + b"\r\n\xff")
    assert capfdbinary.readouterr().out == SEQUENCES.encode() + b"\r\n\xff"
