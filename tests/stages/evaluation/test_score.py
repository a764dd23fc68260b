"""The stage `score` over HTTP and with a user's own scorers: its tables, its board, failures and kills."""

import importlib
import json
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from audited import write_stage_table
from forked import Forked
from scripted_server import Said, ScriptedServer, fail, say
from synthetic_run import RUBRIC, picture, rubric_row, sample

from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.evaluation.scoreboard import Scoreboard, read_scoreboard
from rubricworks.rubrics import Scorecard
from rubricworks.runtime.launch import launch

SAMPLES = 12
MODELS = {"plain": "a cat", "rich": "a black cat"}
"""Model → what it says of every picture, with the picture's number."""


def judge(_: int, body: dict[str, Any]) -> Said:
    """A rubric's judge, and an arena's that likes the longer caption; it breaks down over picture 3 of the rich."""
    text = json.dumps(body["messages"])
    if body["model"] == "arena":
        first, second = (text.split(f"<{tag}>")[1].split(f"</{tag}>")[0] for tag in ("caption_a", "caption_b"))
        winner = "Tie" if len(first) == len(second) else "A" if len(first) > len(second) else "B"
        return say(json.dumps({"reason": "longer", "judgment": winner}))
    if "a black cat 3" in text:
        return fail(400, "no")
    credits = ["cat" in text, "black cat" in text.split("<caption>")[1]]
    verdicts = [{"id": number, "score": int(met), "reasoning": "read"} for number, met in enumerate(credits, start=1)]
    return say(json.dumps({"verdicts": verdicts}))


@pytest.fixture(scope="module")
def server():
    server = ScriptedServer(judge)
    yield server
    server.close()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> dict[str, str]:
    """Held-out samples with rubrics, all but the last; one more sample is not held out."""
    folder = tmp_path_factory.mktemp("inputs")
    rows = [sample(f"s{number}", picture("red", 8 + number)) for number in range(SAMPLES)]
    rows.append(sample("seen", picture("blue"), split="train"))
    rubrics = [rubric_row(f"s{number}", RUBRIC) for number in range(SAMPLES - 1)]
    return {
        "samples": str(write_stage_table(folder / "prepare", "samples", rows)),
        "rubrics": str(write_stage_table(folder / "synthesize_rubrics", "rubrics", rubrics)),
    }


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, dict[str, str]]:
    folder = tmp_path_factory.mktemp("models")
    return {name: {"responses": write_responses(folder / f"{name}.jsonl", text)} for name, text in MODELS.items()}


def write_responses(path: Path, text: str, count: int = SAMPLES) -> str:
    lines = [json.dumps({"sample_id": f"s{number}", "response": f"{text} {number}"}) for number in range(count)]
    path.write_text("\n".join(lines))
    return str(path)


def config(models: dict[str, Any], scorers: dict[str, Any], **more: Any) -> str:
    return json.dumps(
        {"type": "captions", "models": models, "scorers": scorers, "opponent": "plain", "batch_size": 3, **more}
    )


def judged_by(url: str) -> dict[str, Any]:
    endpoints = {model: {"judge": {"url": url, "model": model}} for model in ("rubric", "arena")}
    return {name: endpoints[name] for name in ("rubric", "arena")}


def own(name: str) -> dict[str, Any]:
    return {"functions": [{"function": f"own_scorers:{name}"}]}


@pytest.fixture(scope="module")
def scored(server, inputs, models, tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("scored")
    return Path(launch("score", config(models, judged_by(server.url)), str(run), inputs))


def rows_of(folder: Path, **wanted: Any) -> list[dict[str, Any]]:
    return [row for row in read_rows(folder) if wanted.items() <= row.items()]


def board_of(folder: Path) -> Scoreboard:
    board = read_scoreboard(folder)
    assert board is not None
    return board


def test_every_held_out_sample_has_a_response_of_every_model(scored):
    rows = list(read_rows(scored / "responses"))
    assert [(row["model"], row["sample_id"], row["response"]) for row in rows] == [
        (model, f"s{number}", f"{text} {number}") for model, text in MODELS.items() for number in range(SAMPLES)
    ]


def test_means_and_gains_are_those_of_the_judges_words(scored):
    board = board_of(scored)
    # Weight 3 for the cat, 2 for black; s3 of the rich one was not judged, s11 has no rubric.
    assert board.mean("plain", "rubric_reward").value == pytest.approx(3 / 5)
    assert board.mean("rich", "rubric_reward").value == pytest.approx(1)
    assert (board.mean("plain", "rubric_reward").samples, board.mean("plain", "rubric_reward").missing) == (11, 1)
    assert (board.mean("rich", "rubric_reward").samples, board.mean("rich", "rubric_reward").missing) == (10, 2)
    gain = board.gain("rich", "rubric_reward")
    assert (gain.value, gain.samples) == (pytest.approx(2 / 5), 10)
    assert board.mean("rich", "arena_win").value == 1
    assert board.mean("plain", "arena_win") is None


def test_a_failure_is_a_missing_score_with_a_dead_letter_and_never_a_number(scored):
    (row,) = rows_of(scored, model="rich", scorer="rubric", sample_id="s3")
    assert (row["value"], row["reason"]) == (None, "transport")
    assert Scorecard.model_validate_json(row["evidence"]).credits == [None, None]
    letters = list(read_rows(scored / "dead_letters"))
    assert {letter["sample_id"] for letter in letters} == {"s3"}
    assert {letter["criterion"] for letter in letters} == {criterion.criterion for criterion in RUBRIC.criteria}
    (unasked,) = rows_of(scored, model="rich", scorer="rubric", sample_id="s11")
    assert (unasked["value"], unasked["reason"]) == (None, "no rubric")


def test_a_score_says_by_whom_against_whom_and_from_what(scored):
    (row,) = rows_of(scored, model="rich", scorer="arena", sample_id="s1")
    assert (row["against"], row["judge"], row["part"], row["value"]) == ("plain", "arena", "win", 1.0)
    assert json.loads(row["evidence"]) == {"reasons": ["longer"]}


def test_call_per_criterion_gives_the_same_rewards(serve, inputs, models, scored, tmp_path):
    def judge_one(_: int, body: dict[str, Any]) -> Said:
        caption = json.dumps(body["messages"]).split("<caption>")[1]
        (criterion,) = json.loads(body["messages"][-1]["content"].split("<criteria>\n")[1].split("\n</criteria>")[0])
        met = ("black cat" if "black" in criterion["criterion"] else "cat") in caption
        return say(json.dumps({"verdicts": [{"id": 1, "score": int(met), "reasoning": "read"}]}))

    server = serve(judge_one)
    scorer = {"rubric": {**judged_by(server.url)["rubric"], "call_per": "criterion"}}
    out = Path(launch("score", config({"plain": models["plain"]}, scorer, decodings=["greedy"]), str(tmp_path), inputs))
    assert len(server.chats) == len(RUBRIC.criteria) * (SAMPLES - 1)
    rewards, together = (
        {row["sample_id"]: row["value"] for row in rows_of(folder, scorer="rubric", model="plain")}
        for folder in (out, scored)
    )
    assert rewards == {name: value for name, value in together.items() if value is not None}


def test_thoughts_are_no_part_of_responses_and_alone_are_dead_letters(serve, inputs, tmp_path):
    texts = {"thinks": "A dog?\n</think>\n\na black cat", "never ends": "<think>A dog? a black cat"}
    server = serve(lambda _, body: say(texts[body["model"]]))
    endpoints = {name: {"endpoint": {"url": server.url, "model": name}} for name in texts}
    folder = Path(launch("score", config(endpoints, own("word_count"), opponent="thinks"), str(tmp_path), inputs))
    responses = [(row["model"], row["response"]) for row in read_rows(folder / "responses")]
    assert responses == [("thinks", "a black cat")] * SAMPLES
    letters = [(row["reason"], row["raw"]) for row in read_rows(folder / "responses" / "dead_letters")]
    assert letters == [("malformed", texts["never ends"])] * SAMPLES


def test_a_sample_without_a_response_is_missing_for_every_scorer(server, inputs, models, tmp_path):
    fewer = {**models, "rich": {"responses": write_responses(tmp_path / "few.jsonl", "a black cat", 3)}}
    folder = Path(launch("score", config(fewer, judged_by(server.url)), str(tmp_path / "run"), inputs))
    board = board_of(folder)
    assert (board.mean("rich", "arena_win").samples, board.mean("rich", "arena_win").missing) == (3, SAMPLES - 3)
    (row,) = rows_of(folder, model="rich", scorer="arena", sample_id="s5")
    assert (row["value"], row["reason"]) == (None, "no response")


def test_own_scorer_with_parts_of_its_own_names_is_reported_by_its_first(inputs, models, tmp_path):
    board = board_of(Path(launch("score", config(models, own("two_parts")), str(tmp_path), inputs)))
    assert board.headlines == ("two_parts_words",)
    assert (board.mean("rich", "two_parts_words").value, board.mean("rich", "two_parts_letters").value) == (
        4,
        pytest.approx(13 + 2 / 12),
    )
    assert board.title("two_parts_letters") == "Two parts letters"


def test_a_users_own_scorer_gives_its_parts_and_misses_what_it_leaves_out(inputs, models, tmp_path):
    folder = Path(launch("score", config(models, own("word_count")), str(tmp_path / "whole"), inputs))
    board = board_of(folder)
    assert board.mean("rich", "word_count").value == 4
    assert board.mean("rich", "word_count_again").value == 4
    folder = Path(launch("score", config(models, own("every_second")), str(tmp_path / "half"), inputs))
    mean = board_of(folder).mean("plain", "every_second")
    assert (mean.value, mean.samples, mean.missing) == (1.0, 8, 4)  # two of each batch of three


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("raising", r"raising could judge no response \(24 x raised\)"),
        ("not_a_number", r"not_a_number could judge no response \(24 x raised\)"),
        ("numbers", r"own_scorers:numbers returned float; return a list of rubricworks.evaluation.Score"),
        ("strangers", r"own_scorers:strangers scored 'nobody', which is none of the samples"),
        ("twice", r"own_scorers:twice scored 's0' twice in 'score'"),
        ("one_argument", r"own_scorers:one_argument: it must take \(samples, responses\)"),
        ("missing", r"own_scorers:missing: the module own_scorers has no missing"),
    ],
)
def test_a_scorer_that_is_wrong_is_told_of_by_its_name(inputs, models, tmp_path, name, message):
    with pytest.raises(UserError, match=message):
        launch("score", config(models, own(name)), str(tmp_path), inputs)


def test_what_a_scorer_raised_is_in_the_dead_letters(inputs, models, tmp_path):
    with pytest.raises(UserError):
        launch("score", config(models, own("raising")), str(tmp_path), inputs)
    letters = list(read_rows(tmp_path / "score" / "dead_letters"))
    assert len(letters) == 2 * SAMPLES
    assert letters[0]["message"] == "scorer own_scorers:raising raised RuntimeError: the moon is down"


def test_scores_of_an_edited_scorer_are_not_mixed_with_the_old_ones(inputs, models, tmp_path, monkeypatch):
    module = tmp_path / "edited_scorer.py"
    source = "from rubricworks.evaluation import Score\n\n\ndef f(samples, responses):\n"
    source += "    return [Score(sample_id=sample.sample_id, value={}) for sample in samples]\n"
    monkeypatch.syspath_prepend(tmp_path)
    settings = config(models, {"functions": [{"function": "edited_scorer:f"}]})
    for value in (0.25, 0.5):  # of two lengths, since bytecode is told apart by size and second
        module.write_text(source.format(value))
        monkeypatch.delitem(sys.modules, "edited_scorer", raising=False)
        importlib.invalidate_caches()
        folder = Path(launch("score", settings, str(tmp_path / "run"), inputs))
        assert {row["value"] for row in rows_of(folder, scorer="f")} == {value}


def test_two_models_of_one_name_a_wrong_file_and_no_samples_are_refused(inputs, models, tmp_path):
    scorers = own("word_count")
    with pytest.raises(UserError, match="no samples of elsewhere to score"):
        launch("score", config(models, scorers, splits=["elsewhere"]), str(tmp_path / "a"), inputs)
    (tmp_path / "double.jsonl").write_text('{"sample_id": "s1", "response": "a"}\n{"sample_id": "s1", "response": "b"}')
    double = {"plain": {"responses": str(tmp_path / "double.jsonl")}}
    with pytest.raises(UserError, match=r"double\.jsonl: two responses to s1"):
        launch("score", config(double, scorers), str(tmp_path / "b"), inputs)
    (tmp_path / "odd.jsonl").write_text('{"id": "s1", "answer": "a"}')
    odd = {"plain": {"responses": str(tmp_path / "odd.jsonl")}}
    with pytest.raises(UserError, match=r"odd\.jsonl: row 0: give sample_id or file_name, and response or caption"):
        launch("score", config(odd, scorers), str(tmp_path / "c"), inputs)
    with pytest.raises(UserError, match="rubric scores none of the samples: none has a rubric"):
        launch(
            "score",
            config(models, judged_by("http://127.0.0.1:9")),
            str(tmp_path / "d"),
            {"samples": inputs["samples"]},
        )


KILLED_AT = (1, 3, 6, 10, 14, 16, 18, 21, 24, 27)
"""Files of shards at which the stage is killed: responses and their dead letters, then scores and theirs, 8 each."""
PROGRAM = """
import sys
from rubricworks.runtime.launch import launch
import json
launch("score", sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
"""


@pytest.mark.slow
def test_killed_ten_times_it_ends_with_the_same_tables(server, inputs, models, scored, tmp_path, monkeypatch):
    monkeypatch.setattr(server, "script", lambda number, body: replace(judge(number, body), delay=0.4))
    settings = config(models, judged_by(server.url))
    for shards in KILLED_AT:
        process = Forked(PROGRAM, settings, tmp_path, json.dumps(inputs))
        while len(list((tmp_path / "score").rglob("part-*.parquet"))) < shards:
            assert process.poll() is None, "it ended before it was killed"
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    launch("score", settings, str(tmp_path), inputs)
    for table in ("", "responses", "dead_letters"):
        assert list(read_rows(tmp_path / "score" / table)) == list(read_rows(scored / table))
    assert (tmp_path / "score" / "scores.json").read_bytes() == (scored / "scores.json").read_bytes()
