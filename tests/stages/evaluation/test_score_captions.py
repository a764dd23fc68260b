"""Captions of base and policy scored by four judges over HTTP: tables, scoreboard, and what failures leave."""

import json
import os
import signal
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from asked_stages import tables
from audited import write_stage_table
from captioned_squares import COLOUR, HELD_OUT, judges, make_inputs, text_of, words_of
from coloured_squares import squares
from scripted_server import Said, ScriptedServer, fail

from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.evaluation.scoreboard import BASE, POLICY, Scoreboard, figure_name, read_scoreboard
from rubricworks.runtime.launch import launch

pytestmark = pytest.mark.slow

pytest.importorskip("torch")

PROGRAM = """
import json, sys
from rubricworks.runtime.launch import launch
launch(*sys.argv[1:4], json.loads(sys.argv[4]))
"""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> dict[str, str]:
    return make_inputs(tmp_path_factory.mktemp("inputs"))


MODELS = {"b_capscore": "j", "dc_score": "f", "caption_qa": "e", "arena": "a"}
"""Scorer → name of its judge."""


def settings(url: str, scorers: Iterable[str] = MODELS) -> str:
    judges = {name: {"judge": {"url": url, "model": MODELS[name]}} for name in scorers}
    return json.dumps({"type": "captions", "scorers": judges, "max_new_tokens": 12, "batch_size": 2})


def score(run: Path, inputs: dict[str, str], url: str, *scorers: str) -> Path:
    return Path(launch("score", settings(url, scorers or MODELS), str(run), inputs))


def board_of(out: Path) -> Scoreboard:
    board = read_scoreboard(out)
    assert board is not None
    return board


def captions(out: Path) -> list[dict[str, Any]]:
    """A row per sample and model: the caption, and every figure with its evidence and the reason why it is missing."""
    rows = {
        (row["sample_id"], row["model"]): {
            "sample_id": row["sample_id"],
            "model": row["model"],
            "text": row["response"],
        }
        for row in read_rows(out / "responses")
    }
    for score in read_rows(out):
        figure = figure_name(score["scorer"], score["part"])
        row = rows[score["sample_id"], score["model"]]
        assert figure not in row
        row |= {figure: score["value"], f"{figure} evidence": score["evidence"], f"{figure} reason": score["reason"]}
    return list(rows.values())


def by_model(out: Path) -> dict[str, list[dict[str, Any]]]:
    rows = captions(out)
    return {model: [row for row in rows if row["model"] == model] for model in (BASE, POLICY)}


@pytest.fixture(scope="module")
def evaluated(inputs, tmp_path_factory):
    server = ScriptedServer(judges)
    out = score(tmp_path_factory.mktemp("run"), inputs, server.url)
    yield out, server
    server.close()


def test_each_held_out_sample_has_a_caption_of_each_model(evaluated, inputs):
    out, _ = evaluated
    rows = list(read_rows(out / "responses"))
    assert [(row["sample_id"], row["model"]) for row in rows] == [
        (f"s{number}", model) for model in (BASE, POLICY) for number in range(HELD_OUT)
    ]
    truths = [caption for _, _, caption in squares()]
    right = sum(row["text"] == truths[int(row["sample_id"][1:])] for row in by_model(out)[POLICY])
    assert right >= HELD_OUT - 1
    assert not any(row["text"] in truths for row in by_model(out)[BASE])


def test_b_capscore_is_the_harmonic_mean_of_what_the_judge_said(evaluated):
    out, _ = evaluated
    judged = 0
    for row in captions(out):
        caption_words = words_of(row["text"])
        truth = words_of(squares()[int(row["sample_id"][1:])][2])
        if not row["text"].strip():
            continue
        judged += 1
        assert row["b_capscore_precision"] == pytest.approx(
            sum(word in truth for word in caption_words) / len(caption_words)
        )
        assert row["b_capscore_recall"] == pytest.approx(sum(word in caption_words for word in truth) / len(truth))
        assert row["b_capscore_linguistic"] == pytest.approx(1 if row["text"].endswith(".") else 1 / 3)
        parts = [row[f"b_capscore_{name}"] for name in ("precision", "recall", "linguistic")]
        assert row["b_capscore"] == pytest.approx(3 / sum(1 / part for part in parts) if all(parts) else 0)
        assert json.loads(row["b_capscore evidence"])["caption"] == row["text"]
        assert row["b_capscore_recall evidence"] is None
    assert judged >= HELD_OUT


def test_dc_score_counts_true_facts_and_those_of_the_reference(evaluated):
    out, _ = evaluated
    for row in by_model(out)[POLICY]:
        caption_words, truth = (words_of(text) for text in (row["text"], squares()[int(row["sample_id"][1:])][2]))
        true = [word for word in caption_words if word != "blue"]
        beyond = [word for word in true if word not in truth]
        assert row["dc_score_precision"] == pytest.approx(len(true) / len(caption_words))
        assert row["dc_score_recall"] == pytest.approx(len(true) / (len(truth) + len(beyond)))
        assert row["dc_score"] == pytest.approx(row["dc_score_f1"])  # every fact is relevant
        assert [fact["fact"] for fact in json.loads(row["dc_score evidence"])["caption"]] == caption_words


def test_exam_is_answered_from_the_caption_and_missing_where_there_is_none(evaluated):
    out, _ = evaluated
    for rows in by_model(out).values():
        assert [row["caption_qa"] is None for row in rows] == [*[False] * (HELD_OUT - 1), True]
        assert rows[-1]["caption_qa reason"] == "no exam"
        for row in rows[:-1]:
            names = [word for word in row["text"].split() if word in COLOUR.options]
            colour = float(names[0] == "red") if names else 1 / 3 + 0.05
            assert row["caption_qa"] == pytest.approx((colour + 1) / 2)


def test_arena_holds_the_policy_against_the_base_and_a_tie_is_half_a_win(evaluated):
    out, _ = evaluated
    base, policy = by_model(out).values()
    assert not any("arena_win" in row for row in base)
    assert {row["against"] for row in read_rows(out) if row["scorer"] == "arena"} == {BASE}
    for row, other in zip(policy, base, strict=True):
        ends = row["text"].endswith("."), other["text"].endswith(".")
        assert row["arena_win"] == {(True, False): 1, (False, True): 0}.get(ends, 0.5)
        assert json.loads(row["arena_win evidence"]) == {"reasons": ["r"]}


def test_board_has_the_means_of_the_table(evaluated):
    out, _ = evaluated
    board, (base, policy) = board_of(out), by_model(out).values()
    for model, rows in ((BASE, base), (POLICY, policy)):
        for figure in ("b_capscore", "b_capscore_recall", "dc_score_f1", "caption_qa"):
            judged = [row[figure] for row in rows if row[figure] is not None]
            assert board.mean(model, figure).value == pytest.approx(fmean(judged))
            assert board.mean(model, figure).missing == len(rows) - len(judged)
    pairs = [(row["b_capscore"], other["b_capscore"]) for row, other in zip(policy, base, strict=True)]
    gains = [score - other for score, other in pairs if None not in (score, other)]
    assert board.gain(POLICY, "b_capscore").value == pytest.approx(fmean(gains))
    assert board.gain(POLICY, "b_capscore").low > 0
    assert board.mean(POLICY, "caption_qa").missing == 1
    assert board.mean(POLICY, "oracle_f1") is None
    assert board.mean(POLICY, "arena_win").samples == HELD_OUT
    assert board.mean(BASE, "arena_win") is None
    assert board.headlines == ("arena_win", "b_capscore", "dc_score", "caption_qa")
    assert board.title("b_capscore_recall") == "b-CapScore, recall"


def test_only_judges_of_images_see_the_image_and_nobody_is_told_which_model_wrote(evaluated):
    _, server = evaluated
    sees = {chat.body["model"] for chat in server.chats if "image_url" in chat.text}
    assert sees == {"j", "f", "a"}
    prompts = " ".join(text_of(chat.body) for chat in server.chats)
    assert POLICY not in prompts
    assert BASE not in prompts


def test_judge_alone_gives_b_capscore_and_nothing_else(inputs, serve, tmp_path):
    read = {name: inputs[name] for name in ("samples", "model", "policy")}
    board = board_of(score(tmp_path, read, serve(judges).url, "b_capscore"))
    parts = {f"b_capscore_{part}" for part in ("precision", "recall", "linguistic")}
    assert board.scores(POLICY).means.keys() == {"b_capscore", *parts, "length_tokens"}


@pytest.mark.parametrize(
    ("failing", "failures"),
    [("j", "b_capscore"), ("f", "dc_score"), ("e", "caption_qa"), ("a", "arena_win")],
)
def test_failed_judge_leaves_its_own_score_missing_and_says_why(inputs, serve, tmp_path, failing, failures):
    """Calls about one sample, which an image or its reference gives away, fail for good; the others' go on."""
    image, _, reference = squares()[0]
    signs = (b64encode(image).decode(), reference)

    def script(number: int, body: dict[str, Any]) -> Said:
        fails = body["model"] == failing and any(sign in json.dumps(body) for sign in signs)
        return fail(400, "no") if fails else judges(number, body)

    out = score(tmp_path, inputs, serve(script).url)
    missing = [
        row
        for row in captions(out)
        if f"{failures} reason" in row and row[f"{failures} reason"] not in (None, "no exam")
    ]
    assert missing
    assert {row[f"{failures} reason"] for row in missing} == {"transport"}
    for row in missing:
        assert row[failures] is None
        for other in (
            {"b_capscore", "dc_score", "arena_win"} - {failures} - ({"arena_win"} if row["model"] == BASE else set())
        ):
            assert row[other] is not None
    letters = list(read_rows(out / "dead_letters"))
    assert {(letter["sample_id"], letter["response"]) for letter in letters} == {
        (row["sample_id"], row["text"]) for row in missing
    }
    assert {letter["reason"] for letter in letters} == {"transport"}


def test_sample_without_a_reference_is_scored_by_the_others(inputs, serve, tmp_path):
    rows = [row | ({"references": []} if row["sample_id"] == "s1" else {}) for row in read_rows(inputs["samples"])]
    samples = str(write_stage_table(tmp_path / "samples", "samples", rows))
    out = score(tmp_path / "run", inputs | {"samples": samples}, serve(judges).url)
    for row in captions(out):
        bare = row["sample_id"] == "s1"
        for figure in ("b_capscore", "b_capscore_recall", "dc_score", "dc_score_f1"):
            assert (row[f"{figure} reason"] == "no reference") is bare
        assert row["caption_qa"] is not None or row["sample_id"] == f"s{HELD_OUT - 1}"
    assert not list(read_rows(out / "dead_letters"))


def test_when_no_caption_could_be_judged_it_says_so_and_begins_anew_the_next_time(inputs, serve, tmp_path):
    down = [True]
    server = serve(lambda number, body: fail(400, "no") if down[0] and body["model"] == "j" else judges(number, body))
    with pytest.raises(UserError, match=r"b_capscore could judge no response \(.*transport\); see .*dead_letters"):
        score(tmp_path, inputs, server.url)
    down[0] = False
    assert board_of(score(tmp_path, inputs, server.url)).mean(BASE, "b_capscore")


def test_samples_without_references_are_refused_before_anything_is_asked(inputs, serve, tmp_path):
    rows = [row | {"references": []} for row in read_rows(inputs["samples"])]
    bare = str(write_stage_table(tmp_path / "bare", "samples", rows))
    server = serve(judges)
    with pytest.raises(UserError, match="b_capscore scores none of the samples: none has a reference caption"):
        score(tmp_path / "run", inputs | {"samples": bare}, server.url)
    assert not server.chats


def test_caption_qa_without_an_exam_is_refused(inputs, serve, tmp_path):
    read = {name: inputs[name] for name in ("samples", "model", "policy")}
    with pytest.raises(UserError, match=r"caption_qa scores none of the samples: .* write_exams"):
        score(tmp_path, read, serve(judges).url)


def test_visual_questions_give_the_share_that_is_right_and_are_no_captions(serve, tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    for number, (image, _, _) in enumerate(squares()):
        (folder / f"{number}.png").write_bytes(image)
    lines = [{"file_name": f"{number}.png", "text": text} for number, (_, _, text) in enumerate(squares())]
    (folder / "metadata.jsonl").write_text("\n".join(map(json.dumps, lines)))
    config = {"source": str(folder), "held_out": 4, "prompt": "describe"}
    samples = launch("prepare", json.dumps(config), str(tmp_path / "run"), {})
    held_out = {row["sample_id"]: row["references"][0] for row in read_rows(samples) if row["split"] == "held_out"}
    first, second, third, silent = held_out
    texts = [text for _, _, text in squares()]
    # Sample, right answer, response; the last one gets none.
    requests = [
        (first, "red", r"\boxed{red}"),
        (second, "green", r"\boxed{green}"),
        (second, "purple", r"\boxed{green}"),
        (third, "blue", "blue without a box"),
        (silent, "red", None),
    ]
    questions = [
        {"image": f"{texts.index(held_out[sample])}.png", "question": "which ?", "answer": answer, "references": ["r"]}
        for sample, answer, _ in requests
    ]
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, questions)))
    message = held_out | {f"question-{n}": text for n, (_, _, text) in enumerate(requests) if text}
    responses = [{"sample_id": name, "response": text} for name, text in message.items()]
    (tmp_path / "said.jsonl").write_text("\n".join(map(json.dumps, responses)))
    config = json.loads(settings(serve(judges).url, ["b_capscore"]))
    config |= {"models": {"written": {"responses": str(tmp_path / "said.jsonl")}}}
    config |= {"questions": {"source": str(folder / "questions.jsonl")}}
    out = Path(launch("score", json.dumps(config), str(tmp_path / "run"), {"samples": samples}))
    shares = {row["sample_id"]: row["value"] for row in read_rows(out) if row["scorer"] == "visual_questions"}
    assert shares == {first: 1.0, second: 0.5, third: 0.0}
    assert {row["sample_id"] for row in read_rows(out / "responses")} == message.keys()
    assert {row["sample_id"] for row in read_rows(out)} == held_out.keys()
    assert board_of(out).mean("written", "visual_questions_right").value == pytest.approx(0.5)


@pytest.mark.slow
def test_killed_half_way_and_run_again_it_ends_with_the_same_bytes(inputs, evaluated, serve, tmp_path):
    whole, first = evaluated
    arguments = ["score", settings(first.url), str(tmp_path), json.dumps(inputs)]
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments], stderr=subprocess.DEVNULL)
    while not (tmp_path / "score" / "scores" / "part-00000.parquet").exists():
        assert process.poll() is None, "it ended before it was killed"
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "score" / "done.json").exists()
    cut = score(tmp_path, inputs, first.url)
    assert tables(cut) == tables(whole)
    assert (cut / "scores.json").read_bytes() == (whole / "scores.json").read_bytes()
