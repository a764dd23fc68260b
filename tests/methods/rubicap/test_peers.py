"""RubiCap's baselines: the captions that the supervised ones learn, and the rewards of those trained by RL."""

import json
from pathlib import Path
from typing import Any

import pytest
from audited import write_stage_table
from coloured_squares import squares
from rubric_squares import make_inputs, rubric
from scripted_server import fail, say
from training_configs import policy_json

from rubricworks.data.tables import count_rows, read_rows
from rubricworks.errors import UserError
from rubricworks.llm import Endpoint
from rubricworks.metrics.rouge import rouge_l
from rubricworks.policy.algorithms.algorithm import PolicyStage
from rubricworks.policy.algorithms.rewrite_sft import RewriteSft, rewriting_prompt
from rubricworks.policy.algorithms.sft import Sft
from rubricworks.policy.policy import CaptionPolicy
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.runtime.job import open_job
from rubricworks.runtime.launch import launch

pytest.importorskip("trl")

SFT = {"steps": 1, "batch_size": 2, "learning_rate": 1e-3}
RL = {"steps": 1, "prompts_per_step": 2, "group_size": 4, "max_new_tokens": 8, "learning_rate": 1e-4}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> dict[str, str]:
    return make_inputs(tmp_path_factory.mktemp("inputs"))


def train(run: Path, inputs: dict[str, str], reward: dict[str, Any]) -> Path:
    return Path(launch("train_policy", policy_json(reward, **RL), str(run), inputs))


def rewrite(run: Path, inputs: dict[str, str], judge: str, **options: Any) -> Path:
    reward = {"type": "rubric", "judge": {"url": judge, "model": "judge"}}
    return Path(launch("train_policy", policy_json(reward, RewriteSft, **SFT, **options), str(run), inputs))


def captions_of(captioner: Endpoint | None, inputs: dict[str, str], run: Path) -> dict[str, tuple[str, ...]]:
    config = CaptionPolicy(algorithm=Sft(type="sft", captioner=captioner))
    job = open_job("train_policy", config, run, {name: Path(path) for name, path in inputs.items()})
    return config.algorithm.captions(PolicyStage(config, job, None))


def test_sft_learns_the_first_reference_of_each_training_sample(inputs, tmp_path):
    captions = captions_of(None, inputs, tmp_path)
    expected = {f"s{n}": (text,) for n, (_, _, text) in enumerate(squares()) if n not in (3, 5, 7)}
    assert captions == expected


def test_sft_learns_of_the_samples_alone_that_have_a_rubric_as_rl_does(inputs, tmp_path):
    with_rubric = [row for row in read_rows(inputs["rubrics"]) if row["sample_id"] in ("s1", "s4", "s8")]
    rubrics = str(write_stage_table(tmp_path / "rubrics", "rubrics", with_rubric))
    captions = captions_of(None, {**inputs, "rubrics": rubrics}, tmp_path / "own")
    assert sorted(captions) == ["s1", "s4", "s8"]
    teacher = Endpoint(url="http://127.0.0.1:9", model="teacher")
    assert sorted(captions_of(teacher, {**inputs, "rubrics": rubrics}, tmp_path / "teacher")) == ["s1", "s4", "s8"]
    empty = str(write_stage_table(tmp_path / "empty", "rubrics", []))
    assert len(captions_of(None, {**inputs, "rubrics": empty}, tmp_path / "none")) == 9  # a method without rubrics


def test_an_epoch_of_sft_sees_each_caption_once(inputs, tmp_path):
    config = policy_json(None, Sft, epochs=1, batch_size=2, learning_rate=1e-3, log_every=1)
    out = Path(launch("train_policy", config, str(tmp_path), inputs))
    line = json.loads((tmp_path / "ledger.jsonl").read_text())
    assert (line["examples"], line["steps"]) == (9, 5)
    assert (out / "checkpoint-5").is_dir()


def test_a_teachers_captions_are_the_committees_and_another_captioner_is_asked_once(inputs, serve, tmp_path):
    server = serve(lambda at, body: say("a square .") if at % 4 else fail(400, "no"))
    teacher = Endpoint(url=server.url, model="teacher")
    captions = captions_of(teacher, inputs, tmp_path / "a")
    assert not server.chats
    assert captions["s1"] == (f"a {squares()[1][2]}",)
    assert "s0" not in captions
    stranger = teacher.model_copy(update={"model": "stranger"})
    captions = captions_of(stranger, inputs, tmp_path / "b")
    assert len(server.chats) == 10  # the training samples alone
    assert all("image_url" in chat.text for chat in server.chats)
    assert set(captions.values()) == {("a square .",)}
    assert 0 < len(captions) < 10
    assert captions_of(stranger, inputs, tmp_path / "b") == captions
    assert len(server.chats) == 10


def grade(_: int, body: dict[str, Any]):
    """A criterion is met where the caption says its word; the judge breaks down over "here"."""
    content = body["messages"][1]["content"]
    text = content if isinstance(content, str) else content[0]["text"]
    words = text.split("<caption>\n")[1].split("\n</caption>")[0].split()
    if "here" in words:
        return fail(400, "no")
    asked = json.loads(text.split("<criteria>\n")[1].split("\n</criteria>")[0])
    results = [
        {"id": request["id"], "reasoning": "r", "score": int(request["criterion"] in words)} for request in asked
    ]
    return say(json.dumps({"verdicts": results}))


class Engine:
    """Student that says the next of its captions whenever it is asked about a picture."""

    def __init__(self, texts: dict[str, list[str]]) -> None:
        self.texts, self.asked = texts, []
        self.of_image = {image: f"s{number}" for number, (image, _, _) in enumerate(squares())}

    def __call__(self, images, prompts, *, max_new_tokens, temperature, seed):
        names = [self.of_image[image] for image in images]
        self.asked.append((seed, dict(zip(names, prompts, strict=True))))
        return [(self.texts.get(name, ["a red green blue square"]).pop(0), 3) for name in names]

    def close(self) -> None: ...


@pytest.mark.parametrize("follows", [True, False])
def test_a_caption_is_rewritten_until_it_meets_every_criterion(inputs, serve, tmp_path, monkeypatch, follows):
    texts = {"s0": ["a", "square", "red", "here"], "s1": ["green square"], "s2": ["here", "blue square"]}
    texts["s4"] = ["here", "here", "here", "here"]
    engine = Engine({name: list(said) for name, said in texts.items()})
    monkeypatch.setattr("rubricworks.training.engine.load_engine", lambda *_, **__: engine)
    out = rewrite(tmp_path, inputs, serve(grade).url, attempts=3, follows_instructions=follows)
    # "red" earns 3 of 4 and "square" 1; of captions without a verdict none is learnt.
    rows = {row["sample_id"]: row for row in read_rows(out / "rewritten")}
    assert {name: rows[name]["caption"] for name in texts if name in rows} == {
        "s0": "red", "s1": "green square", "s2": "blue square",
    }  # fmt: skip
    assert (rows["s0"]["seed"], rows["s2"]["seed"]) == (3, 2)  # that of the stage, 1, and the attempt's number
    assert len(rows) == 9
    letters = list(read_rows(out / "rewritten" / "dead_letters"))
    assert {row["sample_id"] for row in letters} == {"s0", "s2", "s4"}
    assert [sorted(asked) for _, asked in engine.asked[1:]] == [["s0", "s2", "s4"], ["s0", "s4"], ["s0", "s4"]]
    prompt = engine.asked[2][1]["s0"]
    assert prompt == (rewriting_prompt(squares()[0][1], "square", rubric("red")) if follows else squares()[0][1])
    line = json.loads((tmp_path / "ledger.jsonl").read_text())
    assert (line["rewritten"], line["all_met"], line["examples"]) == (9, 8, 9)
    assert [count_rows(out / name) for name in ("rollouts", "scorecards")] == [0, 0]
    card = (out / "model" / "README.md").read_text()
    assert "- rubrics: sha256 " in card
    assert "type: rewrite_sft" in card


def test_a_student_without_a_caption_of_words_is_not_trained(inputs, serve, tmp_path, monkeypatch):
    engine = Engine({f"s{number}": ["."] * 2 for number in range(12)})

    monkeypatch.setattr("rubricworks.training.engine.load_engine", lambda *_, **__: engine)
    with pytest.raises(UserError, match="none of the samples has a rubric and a caption that could be judged"):
        rewrite(tmp_path, inputs, serve(grade).url, attempts=1)


def test_rouge_l_is_the_reward_against_the_first_reference(inputs, tmp_path):
    out = train(tmp_path, inputs, {"type": "rouge_l"})
    references = {f"s{number}": text for number, (_, _, text) in enumerate(squares())}
    rows = list(read_rows(out / "rollouts"))
    assert len(rows) == 8
    for row in rows:
        assert row["reward"] == pytest.approx(rouge_l(row["response"], [references[row["sample_id"]]]))


@pytest.mark.slow
@pytest.mark.parametrize("reference", [False, True])
def test_a_likert_reward_is_the_rating_of_the_caption_and_a_failure_is_no_number(reference, inputs, serve, tmp_path):
    def rate(at: int, body: dict[str, Any]):
        return say(str(at % 8)) if at % 3 else fail(400, "no")

    rater = serve(rate)
    judge = {"url": rater.url, "model": "rater"}
    out = train(tmp_path, inputs, {"type": "likert", "judge": judge, "reference": reference})
    texts = [chat.text for chat in rater.chats]
    assert all("image_url" in text for text in texts)
    assert all(("<reference>" in text) == reference for text in texts)
    rewards = [row["reward"] and round(row["reward"], 6) for row in read_rows(out / "rollouts")]
    assert {None} < set(rewards) < {None, *(points / 10 for points in range(8))}
    assert count_rows(out / "dead_letters") == rewards.count(None)


def test_caprls_reward_is_taken_in_exams_that_are_written_for_the_training_samples(inputs, serve, tmp_path):
    question = {"question": "Which colour?", "options": ["red", "green", "blue"], "answer": "A"}
    writer = serve(lambda at, body: say(json.dumps({"questions": [question] * 4})))
    taker = serve(lambda at, body: say("A"))
    endpoint = {"model": "x"}
    reward = {"type": "exam", "writer": endpoint | {"url": writer.url}, "taker": endpoint | {"url": taker.url}}
    out = train(tmp_path, inputs, reward)
    assert len(writer.chats) == 10
    assert count_rows(out / "write_exams") == 10
    assert all("image_url" not in chat.text for chat in taker.chats)
    assert all(0 <= row["reward"] <= 1 for row in read_rows(out / "rollouts"))
    assert {row["reward"] for row in read_rows(out / "rollouts")} - {0, 1}


REFUSED = [
    ("rouge_l", "policy.reward.refresh={every: 5}", r"policy\.reward\.refresh: no such field"),
    ("rouge_l", "policy.reward.canary={}", r"policy\.reward\.canary: no such field"),
    ("rouge_l", "policy.reward.call_per=criterion", r"policy\.reward\.call_per: no such field"),
    ("sft_expert", "policy.algorithm.refill={}", r"policy\.algorithm\.refill: no such field"),
    ("sft_expert", "policy.algorithm.beta=0.1", r"policy\.algorithm\.beta: no such field"),
    ("sft_expert", "policy.reward={type: rouge_l}", r"policy\.reward is rouge_l, and algorithm sft trains on texts"),
    (
        "rubric_sft",
        "policy.reward={type: rouge_l}",
        "reward is rouge_l, and algorithm rewrite_sft takes rubric",
    ),
    (None, "policy.reward=null", r"policy\.reward is missing: algorithm grpo trains on one"),
    (None, "policy.reward={type: function, function: 'a:b', noise_correction: {}}", "noise_correction: no such field"),
    (None, "policy.reward={type: function, function: 'a:b', canary: {}}", r"policy\.reward\.canary: no such field"),
    (None, "policy.reward={type: function, function: 'a:b', judge: {type: cascade}}", r"judge: no such field"),
]


@pytest.mark.parametrize(("arm", "override", "message"), REFUSED)
def test_an_option_that_would_be_ignored_does_not_exist(arm, override, message):
    with pytest.raises(UserError, match=message) as refused:
        load_recipe(recipe_path("rubicap-laptop"), [override], arm=arm)
    assert len(str(refused.value).splitlines()) == 1
