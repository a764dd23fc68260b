"""Base and policy captioned and scored by four views over HTTP: the table, its figures, and what failures leave."""

import json
import os
import signal
import subprocess
import sys
import time
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from asked_stages import tables
from audited import write_stage_table
from captioned_squares import COLOUR, HELD_OUT, judges, make_inputs, text_of, words_of
from coloured_squares import squares
from scripted_server import Said, ScriptedServer, fail

from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.evaluation.caption_summary import BASE, POLICY, summarise_captions
from rubricworks.methods.balcaprl.stages.evaluate_captions import read_summary
from rubricworks.runtime.launch import launch

pytest.importorskip("torch")

PROGRAM = """
import json, sys
from rubricworks.runtime.launch import launch
launch(*sys.argv[1:4], json.loads(sys.argv[4]))
"""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> dict[str, str]:
    return make_inputs(tmp_path_factory.mktemp("inputs"))


def settings(url: str, **config: Any) -> str:
    named = {"judge": "j", "fact_judge": "f", "exam_taker": "e", "arena_judge": "a"}
    endpoints = {name: {"url": url, "model": model, "attempts": 1} for name, model in named.items()}
    return json.dumps({**endpoints, "max_new_tokens": 12, "batch_size": 2, **config})


def evaluate(run: Path, inputs: dict[str, str], url: str, **config: Any) -> Path:
    return Path(launch("evaluate_captions", settings(url, **config), str(run), inputs))


def by_model(out: Path) -> dict[str, list[dict[str, Any]]]:
    rows = list(read_rows(out))
    return {model: [row for row in rows if row["model"] == model] for model in (BASE, POLICY)}


@pytest.fixture(scope="module")
def evaluated(inputs, tmp_path_factory):
    server = ScriptedServer(judges)
    out = evaluate(tmp_path_factory.mktemp("run"), inputs, server.url)
    yield out, server
    server.close()


def test_each_held_out_sample_has_a_caption_of_each_model(evaluated, inputs):
    out, _ = evaluated
    rows = list(read_rows(out))
    assert [(row["sample_id"], row["model"]) for row in rows] == [
        (f"s{number}", model) for number in range(HELD_OUT) for model in (BASE, POLICY)
    ]
    captions = [caption for _, _, caption in squares()]
    right = sum(row["caption"] == captions[int(row["sample_id"][1:])] for row in by_model(out)[POLICY])
    assert right >= HELD_OUT - 1
    assert not any(row["caption"] in captions for row in by_model(out)[BASE])


def test_b_capscore_is_the_harmonic_mean_of_what_the_judge_said(evaluated):
    out, _ = evaluated
    judged = 0
    for row in read_rows(out):
        said = words_of(row["caption"])
        truth = words_of(squares()[int(row["sample_id"][1:])][2])
        if not row["caption"].strip():
            continue
        judged += 1
        assert row["precision"] == pytest.approx(sum(word in truth for word in said) / len(said))
        assert row["recall"] == pytest.approx(sum(word in said for word in truth) / len(truth))
        assert row["linguistic"] == pytest.approx(1 if row["caption"].endswith(".") else 1 / 3)
        parts = [row[name] for name in ("precision", "recall", "linguistic")]
        assert row["b_capscore"] == pytest.approx(3 / sum(1 / part for part in parts) if all(parts) else 0)
        assert json.loads(row["graded"])["caption"] == row["caption"]
    assert judged >= HELD_OUT


def test_dc_score_counts_true_facts_and_those_of_the_reference(evaluated):
    out, _ = evaluated
    for row in by_model(out)[POLICY]:
        said, truth = (words_of(text) for text in (row["caption"], squares()[int(row["sample_id"][1:])][2]))
        true = [word for word in said if word != "blue"]
        beyond = [word for word in true if word not in truth]
        assert row["dc_precision"] == pytest.approx(len(true) / len(said))
        assert row["dc_recall"] == pytest.approx(len(true) / (len(truth) + len(beyond)))
        assert row["dc_score"] == pytest.approx(row["dc_f1"])  # every fact is relevant
        assert [one["fact"] for one in json.loads(row["facts"])["caption"]] == said


def test_exam_is_answered_from_the_caption_and_missing_where_there_is_none(evaluated):
    out, _ = evaluated
    assert [row["caption_qa"] is None for row in read_rows(out)] == [*[False] * 2 * (HELD_OUT - 1), True, True]
    for row in list(read_rows(out))[:-2]:
        named = [word for word in row["caption"].split() if word in COLOUR.options]
        colour = float(named[0] == "red") if named else 1 / 3 + 0.05
        assert row["caption_qa"] == pytest.approx((colour + 1) / 2)


def test_arena_holds_the_policy_against_the_base_and_a_tie_is_half_a_win(evaluated):
    out, _ = evaluated
    base, policy = by_model(out).values()
    assert {row["win"] for row in base} == {None}
    for one, other in zip(policy, base, strict=True):
        ends = one["caption"].endswith("."), other["caption"].endswith(".")
        assert one["win"] == {(True, False): 1, (False, True): 0}.get(ends, 0.5)
        assert one["judgment"] == "r"


def test_summary_is_that_of_the_table(evaluated):
    out, _ = evaluated
    summary = read_summary(out)
    assert summary == summarise_captions(read_rows(out))
    assert summary.gains["b_capscore"].low > 0
    assert summary.models[POLICY]["caption_qa"].missing == 1
    assert "oracle_f1" not in summary.models[POLICY]
    assert summary.win_rate.samples == HELD_OUT


def test_only_judges_of_images_see_the_image_and_nobody_is_told_which_model_wrote(evaluated):
    _, server = evaluated
    sees = {chat.body["model"] for chat in server.chats if "image_url" in chat.text}
    assert sees == {"j", "f", "a"}
    asked = " ".join(text_of(chat.body) for chat in server.chats)
    assert POLICY not in asked
    assert BASE not in asked


def test_judge_alone_gives_b_capscore_and_nothing_else(inputs, serve, tmp_path):
    nobody = {"fact_judge": None, "exam_taker": None, "arena_judge": None}
    read = {name: inputs[name] for name in ("samples", "model", "policy")}
    out = evaluate(tmp_path, read, serve(judges).url, **nobody)
    summary = read_summary(out)
    assert set(summary.models[POLICY]) == {"b_capscore", "precision", "recall", "linguistic", "tokens"}
    assert summary.win_rate is None


@pytest.mark.parametrize(
    ("failing", "lost"),
    [("j", "b_capscore"), ("f", "dc_score"), ("e", "caption_qa"), ("a", "win")],
)
def test_failed_judge_leaves_its_own_column_missing_and_says_why(inputs, serve, tmp_path, failing, lost):
    """Calls about one sample, which an image or its reference gives away, fail for good; the others' go on."""
    image, _, reference = squares()[0]
    signs = (b64encode(image).decode(), reference)

    def script(number: int, body: dict[str, Any]) -> Said:
        fails = body["model"] == failing and any(sign in json.dumps(body) for sign in signs)
        return fail(400, "no") if fails else judges(number, body)

    out = evaluate(tmp_path, inputs, serve(script).url)
    rows = list(read_rows(out))
    missing = [row for row in rows if row[lost] is None and not (lost == "win" and row["model"] == BASE)]
    assert missing
    others = {"b_capscore", "dc_score", "win"} - {lost}
    assert all(
        row[other] is not None for row in missing for other in others - ({"win"} if row["model"] == BASE else set())
    )
    letters = list(read_rows(out / "dead_letters"))
    assert letters
    assert {letter["sample_id"] for letter in letters} <= {row["sample_id"] for row in missing}
    assert {letter["reason"] for letter in letters} == {"transport"}


def test_when_no_caption_could_be_judged_it_says_so_and_begins_anew_the_next_time(inputs, serve, tmp_path):
    down = [True]
    server = serve(lambda number, body: fail(400, "no") if down[0] and body["model"] == "j" else judges(number, body))
    with pytest.raises(UserError, match=r"no caption could be judged; see .*dead_letters"):
        evaluate(tmp_path, inputs, server.url)
    down[0] = False
    assert "b_capscore" in read_summary(evaluate(tmp_path, inputs, server.url)).models[BASE]


def test_samples_without_references_are_refused_before_anything_is_asked(inputs, serve, tmp_path):
    rows = [row | {"references": []} for row in read_rows(inputs["samples"])]
    bare = str(write_stage_table(tmp_path / "bare", "samples", rows))
    server = serve(judges)
    with pytest.raises(UserError, match="none of the held-out samples has a reference caption"):
        evaluate(tmp_path / "run", inputs | {"samples": bare}, server.url)
    assert not server.chats


def test_exam_taker_without_an_exam_is_refused(inputs, serve, tmp_path):
    read = {name: inputs[name] for name in ("samples", "model", "policy")}
    with pytest.raises(UserError, match="run write_exams for them first"):
        evaluate(tmp_path, read, serve(judges).url)


def test_killed_half_way_and_run_again_it_ends_with_the_same_bytes(inputs, evaluated, serve, tmp_path):
    whole, first = evaluated
    arguments = ["evaluate_captions", settings(first.url), str(tmp_path), json.dumps(inputs)]
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments], stderr=subprocess.DEVNULL)
    while not (tmp_path / "evaluate_captions" / "part-00000.parquet").exists():
        assert process.poll() is None, "it ended before it was killed"
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "evaluate_captions" / "done.json").exists()
    cut = evaluate(tmp_path, inputs, first.url)
    assert tables(cut) == tables(whole)
    assert read_summary(cut) == read_summary(whole)
