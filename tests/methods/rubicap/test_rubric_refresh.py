"""Rubrics that are rewritten during training, by one process and by two, which share the samples and the result."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from rubric_squares import make_inputs
from scripted_server import fail, say
from training_configs import policy_json

from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.runtime.launch import launch

pytest.importorskip("trl")
pytestmark = pytest.mark.slow

# A policy that stands still: whatever the processes draw, its greedy captions are the same.
RL = {"steps": 3, "prompts_per_step": 2, "group_size": 4, "max_new_tokens": 8, "learning_rate": 1e-12}
RL |= {"save_every": 1, "log_every": 1}
TRAINED = {f"s{number}" for number in range(12)} - {"s3", "s7"}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> dict[str, str]:
    return make_inputs(tmp_path_factory.mktemp("inputs"))


@pytest.fixture
def two_processes(monkeypatch):
    monkeypatch.setenv("RUBRICWORKS_ACCELERATORS", "2")
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "false")


def text_of(body: dict[str, Any]) -> str:
    content = body["messages"][1]["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def picture_of(body: dict[str, Any]) -> str:
    return next(part["image_url"]["url"] for part in body["messages"][1]["content"] if part["type"] == "image_url")


def write(_: int, body: dict[str, Any]):
    """One criterion, named after the picture and the student's caption."""
    caption = text_of(body).split("<student_caption>\n")[1].split("\n</student_caption>")[0]
    title = f"{hashlib.sha256(picture_of(body).encode()).hexdigest()[:6]}: {caption}"
    fields = {"description": "d", "evaluation_rule": "r", "justification": "j", "teacher_consensus": "c"}
    criterion = {"criterion": title, "weight": 2, "student_already_met": False, "reference_teachers": ["Model 1"]}
    return say(json.dumps({"rubrics": [criterion | fields]}))


def titles_of(body: dict[str, Any]) -> list[str]:
    asked = json.loads(text_of(body).split("<criteria>\n")[1].split("\n</criteria>")[0])
    return [request["criterion"] for request in asked]


def grade(_: int, body: dict[str, Any]):
    results = [{"id": number, "reasoning": "r", "score": 1} for number in range(1, len(titles_of(body)) + 1)]
    return say(json.dumps({"verdicts": results}))


def train(
    run: Path, inputs: dict[str, str], writer: str, judge: str, *, every: int = 1, pitfalls: Any = None, **config: Any
) -> Path:
    writing, judging = ({"url": url, "model": "m"} for url in (writer, judge))
    reward = {"type": "rubric", "judge": judging, "refresh": {"every": every, "pitfalls": pitfalls}}
    settings = json.loads(policy_json(reward, **{**RL, **config})) | {"rubric_writing": {"writer": writing}}
    return Path(launch("train_policy", json.dumps(settings), str(run), inputs))


def rewritten_after(out: Path, step: int) -> dict[str, str]:
    """Sample → title of the one criterion of its new rubric."""
    written = json.loads((out / "refreshed_rubrics" / f"step-{step:06d}.json").read_text())
    titles = {name: json.loads(text)["criteria"][0]["criterion"] for name, text in written.items()}
    return {name: title for name, title in titles.items() if ":" in title}


@pytest.mark.long
def test_two_processes_rewrite_each_rubric_once_and_both_train_on_the_result(inputs, serve, tmp_path, two_processes):
    writer, judge = serve(write), serve(grade)
    out = train(tmp_path / "two", inputs, writer.url, judge.url, every=2)
    written = rewritten_after(out, 2)
    assert written.keys() == TRAINED
    assert len(writer.chats) == len(TRAINED)
    assert sorted(path.name for path in (out / "refreshed_rubrics").iterdir()) == ["step-000002.json"]
    # A prompt of each process in each step: the third is judged by the rubrics that the two wrote together.
    rows = list(read_rows(out / "rollouts"))
    last = {row["sample_id"] for row in rows if row["step"] == 3}
    assert len(last) == 2
    asked = [title for chat in judge.chats for title in titles_of(chat.body)]
    assert {title for title in asked if ":" in title} == {written[name] for name in last}


@pytest.mark.long
def test_one_process_writes_the_same_rubrics(inputs, serve, tmp_path, two_processes, monkeypatch):
    writer, judge = serve(write), serve(grade)
    two = train(tmp_path / "two", inputs, writer.url, judge.url, every=2)
    monkeypatch.delenv("RUBRICWORKS_ACCELERATORS")
    item = train(tmp_path / "one", inputs, writer.url, judge.url, every=2)
    name = "refreshed_rubrics/step-000002.json"
    assert (item / name).read_bytes() == (two / name).read_bytes()


@pytest.mark.long
def test_two_processes_that_were_stopped_go_on_with_the_rubrics_in_force(inputs, serve, tmp_path, two_processes):
    rewritten, healthy = [], False

    def count(at: int, body: dict[str, Any]):
        rewritten.append(at)
        return write(at, body)

    def stop_after_the_first_refresh(at: int, body: dict[str, Any]):
        return grade(at, body) if healthy or ":" not in titles_of(body)[0] else fail(401, "no")

    writer, judge = serve(count), serve(stop_after_the_first_refresh)
    with pytest.raises(UserError, match="401"):
        train(tmp_path, inputs, writer.url, judge.url, every=2)
    assert len(rewritten) == len(TRAINED)
    healthy = True
    out = train(tmp_path, inputs, writer.url, judge.url, every=2)
    assert len(rewritten) == len(TRAINED)  # nothing is written twice
    written = rewritten_after(out, 2)
    last = {row["sample_id"] for row in read_rows(out / "rollouts") if row["step"] == 3}
    asked = [titles_of(chat.body)[0] for chat in judge.chats]
    assert {title for title in asked if ":" in title} == {written[name] for name in last}


@pytest.mark.long
def test_a_policy_that_is_sharded_refuses_to_be_asked_for_captions(inputs, serve, tmp_path, two_processes, monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with pytest.raises(UserError, match=r"the rubric refresh needs the policy whole; leave out refresh"):
        train(tmp_path, inputs, serve(write).url, serve(grade).url)


def write_pitfalls(_: int, body: dict[str, Any]):
    """Each word of the worst captions, named after the picture, and a word that a reference says."""
    title = hashlib.sha256(picture_of(body).encode()).hexdigest()[:6]
    failures = [part.split("\n</failure>")[0] for part in text_of(body).split("<failure>\n")[1:]]
    words = [*(word for failure in failures for word in failure.split() if word.isalpha()), "none"]
    proposed = [
        {
            "criterion": f"{title} says {word}",
            "evaluation_rule": word,
            "weight": 2,
            "description": "",
            "justification": "",
        }
        for word in dict.fromkeys(words)
    ]
    return say(json.dumps({"pitfalls": proposed}))


def grade_words(_: int, body: dict[str, Any]):
    """A criterion is met by a caption that has the word of its rule."""
    caption = text_of(body).split("<caption>\n")[1].split("\n</caption>")[0].split()
    asked = json.loads(text_of(body).split("<criteria>\n")[1].split("\n</criteria>")[0])
    results = [
        {"id": request["id"], "reasoning": "r", "score": int(request["evaluation_rule"].split()[-1] in caption)}
        for request in asked
    ]
    return say(json.dumps({"verdicts": results}))


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.long)])
def test_pitfalls_of_the_policys_worst_captions_are_taken_from_the_rewards(
    inputs, serve, tmp_path, monkeypatch, processes
):
    if processes == 2:
        monkeypatch.setenv("RUBRICWORKS_ACCELERATORS", "2")
        monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
        monkeypatch.setenv("ACCELERATE_USE_FSDP", "false")
    writer, judge = serve(write_pitfalls), serve(grade_words)
    out = train(tmp_path, inputs, writer.url, judge.url, every=2, pitfalls={"draws": 4, "most": 2})
    assert len(writer.chats) == len(TRAINED)
    before = {row["sample_id"]: json.loads(row["rubric"]) for row in read_rows(inputs["rubrics"])}
    after = json.loads((out / "refreshed_rubrics" / "step-000002.json").read_text())
    added = {name: json.loads(text)["criteria"][2:] for name, text in after.items()}
    assert all(json.loads(after[name])["criteria"][:2] == before[name]["criteria"] for name in before)
    pitfalls = [item for several in added.values() for item in several]
    assert pitfalls
    assert {pitfall["weight"] for pitfall in pitfalls} == {-2}
    assert not any(pitfall["criterion"].endswith(" none") for pitfall in pitfalls)  # the reference "none of it" says it
    # The step after the refresh is graded by them: what was met of them is missing from the reward.
    rows = [row for row in read_rows(out / "scorecards") if row["step"] == 3]
    for row in rows:
        weights = [criterion["weight"] for criterion in json.loads(after[row["sample_id"]])["criteria"]]
        credits = [verdict["credit"] for verdict in json.loads(row["scorecard"])["verdicts"]]
        assert len(credits) == len(weights)
        earned = sum(w * y for w, y in zip(weights, credits, strict=True)) / 4
        assert row["reward"] == pytest.approx(min(max(earned, 0), 1))
    assert rows
