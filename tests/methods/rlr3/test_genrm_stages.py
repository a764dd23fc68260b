"""GenRM stages, from scripted teachers' scorings to a trained model: labels by hand, tables, interrupted training."""

import json
import statistics
import threading
from pathlib import Path
from typing import Any

import pytest
from asked_questions import prepare_questions, rubrics_table
from audited import write_stage_table
from scripted_server import Said, ScriptedServer, fail, say
from training_configs import grpo_config, sft_config

from rubricworks.data.tables import Sample, count_rows, read_rows, read_samples
from rubricworks.errors import UserError
from rubricworks.methods.rlr3.stages import genrm_data
from rubricworks.methods.rlr3.stages.sampled_responses import ResponseSampler
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.runtime.job import close_job, open_job
from rubricworks.runtime.launch import launch

RUBRIC = Rubric(
    criteria=(
        Criterion(criterion="The number is right.", reference="expr_verify(target='2')", weight=3),
        Criterion(criterion="The left is described.", reference="a red circle", weight=1, essential=False),
    )
)
TEACHERS = {"one": ("2", 1.0), "two": ("3", 0.5), "three": ("2", 0.0)}
"""What each finds in a response that says so little that they differ; else the response says it."""


def respond(samples: list[Sample]) -> list[list[str]]:
    """Responses to each sample: one right, one wrong that is drawn twice, and one unclear."""
    return [
        [f"2 full {sample.sample_id}", *[f"3 none {sample.sample_id}"] * 2, f"unclear {sample.sample_id}"]
        for sample in samples
    ]


def scored(_: int, body: dict[str, Any]) -> Said:
    text = body["messages"][1]["content"]
    response = text.split("<response>\n")[1].split("\n</response>")[0]
    number, credit = TEACHERS[body["model"]]
    if not response.startswith("unclear"):
        number, credit = response[0], 1.0 if "full" in response else 0.0
    item = {"criterion": "The number is right.", "rationale": "r", "credit": f"expr_verify(predict={number!r})"}
    step = {"criterion": "The left is described.", "rationale": "r", "credit": credit}
    return say(json.dumps({"thought": "t", "essential": [item], "additional": [step]}))


@pytest.fixture
def inputs(tmp_path) -> dict[str, Path]:
    samples = Path(prepare_questions(tmp_path / "questions", pictures=10, held_out=2))
    rubrics = {sample.sample_id: RUBRIC for sample in read_samples(samples, "train")}
    return {"samples": samples, "rubrics": rubrics_table(tmp_path / "made", rubrics)}


class Stopped(Exception):
    pass


def labelled(
    run: Path, inputs: dict[str, Path], server: ScriptedServer, draw: ResponseSampler = respond, **config: object
) -> Path:
    """Run the stage as `launch` does, but without a model that draws the responses."""
    run.mkdir(exist_ok=True)
    teachers = [{"url": server.url, "model": name} for name in TEACHERS]
    parsed = genrm_data.Config.model_validate({"teachers": teachers, "test": 4, "shard_size": 5, **config})
    job = open_job("genrm_data", parsed, run, inputs)
    try:
        genrm_data.label_responses(parsed, job, lambda: draw)
    finally:
        job.calls.close()
    close_job(job, 0.0)
    return job.out


def test_labels_are_medians_and_the_splits_balanced_and_apart(tmp_path, inputs, serve):
    server = serve(scored)
    out = labelled(tmp_path / "run", inputs, server)
    every = list(read_rows(out / "labelled"))
    samples = {sample.sample_id: sample for sample in read_samples(inputs["samples"], "train")}
    assert len(every) == 3 * len(samples)  # equal responses count once
    assert len(server.chats) == 3 * len(every)
    for row in every:
        label = json.loads(row["label"])
        kind = row["response"].split()[0]
        expected = {"2": ("2", 1), "3": ("3", 0), "unclear": ("2", statistics.median([1.0, 0.5, 0.0]))}[kind]
        assert label["essential"][0]["credit"] == f"expr_verify(predict={expected[0]!r})"
        assert label["additional"][0]["credit"] == expected[1]
        assert row["loses_credit"] == (kind != "2")
        assert row["question"] == samples[row["sample_id"]].question
    rows = list(read_rows(out))
    by_split = {name: [row for row in rows if row["split"] == name] for name in ("train", "test", "left_out")}
    assert len(by_split["test"]) == 4
    for name in ("train", "test"):
        assert 2 * sum(row["loses_credit"] for row in by_split[name]) == len(by_split[name])
    images = {row["sample_id"]: row["image_digest"] for row in read_rows(inputs["samples"])}
    tested = {images[row["sample_id"]] for row in by_split["test"]}
    assert not tested & {images[row["sample_id"]] for row in rows if row["split"] != "test"}
    table = json.loads((out / "statistics.json").read_text())
    assert set(table) == {"train", "test"}
    assert table["test"]["instances"] == 4
    assert table["train"]["criteria"] == 2 * len(by_split["train"])


def test_only_samples_that_pass_the_policys_filter_are_labelled(tmp_path, inputs, serve):
    samples = [sample.sample_id for sample in read_samples(inputs["samples"], "train")]
    passing = set(samples[::2])
    row = {"any": True, "essential": True, "multiple_choice": False, "rewards": "[]", "initial_reward": None}
    rows = [{"sample_id": name, "kept": name in passing, **row} for name in samples]
    filtered = write_stage_table(tmp_path / "filtered", "filtered", rows)
    out = labelled(tmp_path / "run", {**inputs, "filtered": filtered}, serve(scored), test=2)
    assert {row["sample_id"] for row in read_rows(out / "labelled")} == passing


def test_samples_beyond_the_cap_are_neither_answered_nor_labelled(tmp_path, inputs, serve):
    server = serve(scored)
    some = labelled(tmp_path / "some", inputs, server, samples=7, test=2)
    drawn = {row["sample_id"] for row in read_rows(some / "labelled")}
    assert len(drawn) == 7
    assert len(server.chats) == 3 * count_rows(some / "labelled") == 3 * 3 * 7
    every = [sample.sample_id for sample in read_samples(inputs["samples"], "train")]
    assert drawn not in (set(every[:7]), set(every[-7:]))  # at random, not those of the first corpus
    again = labelled(tmp_path / "again", inputs, server, samples=7, test=2)
    assert {row["sample_id"] for row in read_rows(again / "labelled")} == drawn
    whole = labelled(tmp_path / "whole", inputs, server, samples=10_000)
    assert {row["sample_id"] for row in read_rows(whole / "labelled")} == set(every)


def test_teachers_see_no_target_and_no_image(tmp_path, inputs, serve):
    server = serve(scored)
    labelled(tmp_path / "run", inputs, server)
    for request in server.chats:
        assert "target" not in request.body["messages"][1]["content"]
        assert "image_url" not in request.text


def test_responses_are_drawn_while_teachers_answer_and_labelled_ones_never_again(tmp_path, inputs, serve, monkeypatch):
    drawn: list[str] = []
    third = threading.Event()

    def drawing(samples: list[Sample]) -> list[list[str]]:
        drawn.append(samples[0].sample_id)
        if len(drawn) == 3:
            third.set()
        if len(drawn) == 4:
            raise Stopped
        return respond(samples)

    def waiting(number: int, body: dict[str, Any]) -> Said:
        assert third.wait(60), "the third shard is drawn without an answer about the first"
        return scored(number, body)

    server = serve(waiting)
    with pytest.raises(Stopped):
        labelled(tmp_path / "run", inputs, server, drawing, shard_size=3)
    again: list[int] = []
    out = labelled(
        tmp_path / "run", inputs, server, lambda some: again.append(len(some)) or respond(some), shard_size=3
    )
    names = list(dict.fromkeys(row["sample_id"] for row in read_rows(out / "labelled")))
    assert drawn[:4] == names[0:12:3]
    assert sum(again) == len(names) - 9, "three shards were committed"
    whole = labelled(tmp_path / "whole", inputs, server, shard_size=3)
    files = [*out.rglob("part-*.parquet"), out / "statistics.json", out / "done.json"]
    assert len(files) > 4
    for file in files:
        assert file.read_bytes() == (whole / file.relative_to(out)).read_bytes(), file.name


@pytest.mark.usefixtures("quick_retries")
def test_a_label_takes_two_teachers_and_lost_calls_are_dead_letters(tmp_path, inputs, serve):
    def script(number: int, body: dict[str, Any]) -> Said:
        unclear = "<response>\nunclear" in body["messages"][1]["content"]
        fails = unclear and body["model"] in ("one", "two") and "how many" in body["messages"][1]["content"]
        fails = fails or (unclear and body["model"] == "three" and "how many" not in body["messages"][1]["content"])
        return fail(400, "no") if fails else scored(number, body)

    out = labelled(tmp_path / "run", inputs, serve(script))
    rows = list(read_rows(out / "labelled"))
    unclear = [row for row in rows if row["response"].startswith("unclear")]
    assert {row["question"].split()[0] for row in rows} == {"how", "what"}
    assert {row["question"].split()[0] for row in unclear} == {"what"}  # two of the teachers are left there
    assert {json.loads(row["label"])["additional"][0]["credit"] for row in unclear} == {0.5}
    letters = list(read_rows(out / "dead_letters"))
    assert {(letter["purpose"], letter["reason"]) for letter in letters} == {
        (f"grading by {name}", "transport") for name in TEACHERS
    }


def test_a_test_larger_than_the_data_is_one_clear_error_and_the_labels_are_kept(tmp_path, inputs, serve):
    with pytest.raises(UserError, match="test is 500"):
        labelled(tmp_path / "run", inputs, serve(scored), test=500)
    assert len(list(read_rows(tmp_path / "run" / "genrm_data" / "labelled"))) > 0


def test_one_teacher_or_the_same_twice_is_refused():
    item = {"url": "http://localhost:1/v1", "model": "a"}
    for teachers in ([item], [item, item]):
        with pytest.raises(ValueError, match="teacher"):
            genrm_data.Config.model_validate({"teachers": teachers})


FEW = {"save_every": 2, "log_every": 1}
TRAINING = {
    "student": "tiny_text",
    "start": "sft",
    "tiny": {"hidden": 32, "layers": 1, "heads": 2, "intermediate": 64},
    "base": sft_config(steps=2, batch_size=4, **FEW).model_dump(mode="json"),
    "sft": sft_config(steps=3, batch_size=4, **FEW).model_dump(mode="json"),
    "rlvr": grpo_config(steps=3, group_size=2, prompts_per_step=2, max_new_tokens=12, **FEW).model_dump(mode="json"),
}


def trained(run: Path, data: Path, **config: object) -> Path:
    return Path(launch("train_genrm", json.dumps({**TRAINING, **config}), str(run), {"genrm_data": str(data)}))


SYSTEM = [{"role": "system", "content": "Score strictly."}]
ASKED = [{"role": "user", "content": "the response"}]


def prompt_of(out: Path, messages: list[dict[str, str]]) -> str:
    """Text that the trained model reads of a request through a server."""
    from rubricworks.training.generate import load_model_processor

    return load_model_processor(out / "model").apply_chat_template(messages, tokenize=False, add_generation_prompt=True)


def contents(folder: Path) -> dict[str, bytes]:
    """Contents that must not depend on interruptions: models, tables, figures."""
    files = [*folder.rglob("model.safetensors"), *folder.rglob("part-*.parquet"), folder / "genrm.json"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(files) if "checkpoint" not in str(path)}


@pytest.mark.slow
def test_three_models_their_outputs_and_table_4_come_of_a_training_killed_or_not(tmp_path, inputs, serve, monkeypatch):
    data = labelled(tmp_path / "run", inputs, serve(scored))
    whole = trained(tmp_path / "whole", data)
    assert {"base/model/model.safetensors", "sft/model/model.safetensors", "model/model.safetensors"} <= set(
        contents(whole)
    )
    report = json.loads((whole / "genrm.json").read_text())
    assert list(report) == ["base", "rlvr", "sft"]
    assert {model["outputs"] for model in report.values()} == {4}
    outputs = list(read_rows(whole / "outputs"))
    assert [row["model"] for row in outputs] == ["base"] * 4 + ["sft"] * 4 + ["rlvr"] * 4
    card = (whole / "model" / "README.md").read_text()
    assert "- genrm_data: sha256 " in card
    assert all(
        f"| schema_accuracy | {name} | {report[name]['schema_accuracy']['value']:.4g} |" in card for name in report
    )
    assert prompt_of(whole, SYSTEM + ASKED) == prompt_of(whole, ASKED), "a server asks it as it was trained"
    rollouts = list(read_rows(whole / "rollouts"))
    assert [row["step"] for row in rollouts] == [1] * 4 + [2] * 4 + [3] * 4
    assert all(0 <= row["reward"] <= 1 for row in rollouts)
    cards = list(read_rows(whole / "scorecards"))
    assert [card["response"] for card in cards] == [row["response"] for row in rollouts]

    from rubricworks.training.policy.rollouts import PolicyTrainer

    real = PolicyTrainer._calculate_rewards

    def killed(self, *args: Any) -> Any:
        if self.state.global_step == 2:
            raise KeyboardInterrupt
        return real(self, *args)

    with monkeypatch.context() as patched:
        patched.setattr(PolicyTrainer, "_calculate_rewards", killed)
        with pytest.raises(KeyboardInterrupt):
            trained(tmp_path / "cut", data)
    assert not (tmp_path / "cut" / "train_genrm" / "model").exists()
    assert contents(trained(tmp_path / "cut", data)) == contents(whole)


@pytest.mark.slow
def test_test_outputs_are_written_by_the_engine_that_is_named(tmp_path, inputs, serve, monkeypatch):
    from rubricworks.training import engine
    from rubricworks.training.config import EngineOptions

    loaded: list[tuple[str, EngineOptions, int]] = []
    load = engine.load_engine

    def remember(model: Any, options: EngineOptions, *, batch_size: int) -> Any:
        loaded.append((Path(model).parent.name, options, batch_size))
        return load(model, EngineOptions(), batch_size=batch_size)

    monkeypatch.setattr(engine, "check_engine", lambda options: None)  # vLLM is not installed here
    monkeypatch.setattr(engine, "load_engine", remember)
    data = labelled(tmp_path / "run", inputs, serve(scored))
    options = {"kind": "vllm", "max_model_length": 512}
    out = trained(tmp_path / "named", data, engine=options, batch_size=3)
    expected = EngineOptions.model_validate(options)
    assert loaded == [(name, expected, 3) for name in ("base", "sft", "train_genrm")]
    assert len(list(read_rows(out / "outputs"))) == 12


def test_engine_that_is_not_installed_is_said_before_anything_is_trained(tmp_path, inputs, serve):
    data = labelled(tmp_path / "run", inputs, serve(scored))
    with pytest.raises(UserError, match=r"engine\.kind is vllm, but vllm is not installed"):
        trained(tmp_path / "named", data, engine={"kind": "vllm"})
    assert not (tmp_path / "named" / "train_genrm" / "base").exists()


@pytest.mark.slow
def test_student_that_is_a_model_is_its_own_base_and_reads_the_instructions(tmp_path, inputs, serve):
    data = labelled(tmp_path / "run", inputs, serve(scored))
    from rubricworks.training.tiny.text_config import TinyTextConfig
    from rubricworks.training.tiny.text_student import build_text_student

    shape = TinyTextConfig(**TRAINING["tiny"], max_tokens=8192)
    student = build_text_student(['{"thought": ""}'], tmp_path / "student", config=shape)
    out = trained(tmp_path / "own", data, student=str(student), base=None, start="base", instructions=True)
    assert not (out / "base").exists()
    assert set(json.loads((out / "genrm.json").read_text())) == {"base", "sft", "rlvr"}
    assert "Score strictly." in prompt_of(out, SYSTEM + ASKED)


@pytest.mark.slow
def test_student_may_see_so_that_the_audit_can_show_it_the_image(tmp_path, inputs, serve):
    data = labelled(tmp_path / "run", inputs, serve(scored))
    from rubricworks.training.config import TinyConfig
    from rubricworks.training.generate import generate_captions, load_model
    from rubricworks.training.tiny.student import build_student

    shape = TinyConfig(hidden=32, layers=1, heads=2, intermediate=64, vision_hidden=32, max_tokens=8192)
    student = build_student([row["label"] for row in read_rows(data)], tmp_path / "student", config=shape)
    out = trained(tmp_path / "own", data, student=str(student), base=None, start="base", instructions=True)
    assert set(json.loads((out / "genrm.json").read_text())) == {"base", "sft", "rlvr"}
    model, processor = load_model(out / "model")
    (picture,) = [sample.image for sample in list(read_samples(inputs["samples"], "train"))[:1]]
    assert len(generate_captions(model, processor, [picture], ["score"], max_new_tokens=4)) == 1


@pytest.mark.parametrize("change", [{"base": None}, {"student": "some/model"}])
def test_careless_base_belongs_to_the_tiny_student(change):
    from rubricworks.methods.rlr3.stages.train_genrm import Config

    with pytest.raises(ValueError, match="`base` is for student tiny_text"):
        Config.model_validate({**TRAINING, **change})


def test_data_without_a_test_split_is_one_clear_error(tmp_path, inputs, serve):
    data = labelled(tmp_path / "run", inputs, serve(scored))
    rows = list(read_rows(data))
    import asyncio

    from rubricworks.data.tables import build_table
    from rubricworks.runtime.config import StageConfig

    job = open_job("some", StageConfig(), tmp_path / "made", {})

    async def make_rows(items: list[dict]) -> list[dict]:
        return [row for row in items if row["split"] == "train"]

    asyncio.run(build_table(job.out, "genrm_data", rows, make_rows, made_by=job.made_by, shard_size=1000))
    close_job(job, 0.0)
    with pytest.raises(UserError, match="0 to test"):
        trained(tmp_path / "other", job.out)
