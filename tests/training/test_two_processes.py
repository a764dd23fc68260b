"""Trainings sharded over two processes (FSDP 2 over gloo) beside the same ones in one process."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest
import torch
from coloured_squares import SMALL, squares
from gloo_training import LABEL, QUESTION, WRONG, run_processes
from gloo_training import diffusion as train_diffusion
from gloo_training import generator as train_generator
from gloo_training import genrm as train_genrm
from gloo_training import genrm_sft as train_genrm_sft
from gloo_training import policy as train_on_squares
from gloo_training import vlm as train_vlm
from safetensors.torch import load_file
from training_configs import sft_config

from rubricworks.data.tables import build_table
from rubricworks.training.config import TinyLlavaConfig
from rubricworks.training.llava.assembly import build_tiny_llava
from rubricworks.training.policy.rollouts import PolicyTrainer
from rubricworks.training.sft import train_sft
from rubricworks.training.tiny.student import build_student
from rubricworks.training.tiny.text_config import TinyTextConfig
from rubricworks.training.tiny.text_student import build_text_student

pytestmark = pytest.mark.long

SFT = {"steps": 6, "batch_size": 4, "learning_rate": 1e-2, "save_every": 2, "log_every": 1}
POLICY = {"steps": 2, "group_size": 4, "prompts_per_step": 2, "max_new_tokens": 12, "learning_rate": 1e-3}
GENRM = POLICY | {"max_new_tokens": 96, "loss": "group_token_mean", "prompts_per_step": 4}


@pytest.fixture(scope="module")
def students(tmp_path_factory):
    """A student of several layers, and a text student."""
    folder = tmp_path_factory.mktemp("students")
    texts = [text for _, prompt, caption in squares() for text in (prompt, caption)]
    config = SMALL.model_copy(update={"layers": 4, "vision_depth": 2})
    images = [image for image, _, _ in squares()]
    student = build_student(texts, folder / "student", config=config, images=images, seed=1)
    texts = [*(QUESTION.format(number=number) for number in range(8)), LABEL, WRONG]
    shape = TinyTextConfig(hidden=32, layers=4, heads=2, intermediate=64)
    return {"student": str(student), "text": str(build_text_student(texts, folder / "text", config=shape, seed=1))}


@pytest.fixture(scope="module")
def sharded(students, tmp_path_factory):
    """Folder and results of SFT, of a policy step and of a GenRM step, one after the other in two processes."""
    folder = tmp_path_factory.mktemp("sharded")
    tasks = {
        "sft": {"model": students["student"], "config": SFT},
        "policy": {"model": students["student"], "config": POLICY},
        "genrm": {"model": students["text"], "config": GENRM},
    }
    return folder, run_processes(tasks, folder)


def assert_same_model(actual, expected, start, file="model.safetensors") -> None:
    actual, expected, start = (load_file(folder / file) for folder in (actual, expected, start))
    assert actual.keys() == expected.keys()
    moved = max(float((expected[name] - start[name]).abs().max()) for name in expected)
    apart = max(float((actual[name] - expected[name]).abs().max()) for name in expected)
    assert moved > 1e-3
    assert apart < moved / 100


def test_sft_under_fsdp_ends_in_the_model_of_one_process(students, sharded, tmp_path):
    folder, results = sharded
    whole = train_sft(students["student"], squares(), tmp_path, sft_config(**SFT))
    assert_same_model(folder / "sft" / "model", whole, Path(students["student"]))
    assert results[0]["sft"]["steps"] == list(range(1, SFT["steps"] + 1))


def test_llavas_three_stages_under_fsdp_killed_and_resumed_are_those_of_one_process(tmp_path):
    """Some passes of the last stage have no image, on one process or on both."""
    texts = [text for _, prompt, caption in squares() for text in (prompt, caption)]
    shape = TinyLlavaConfig(hidden=32, layers=2, heads=2, intermediate=64, vision_hidden=16, vision_heads=2)
    images = [image for image, _, _ in squares()]
    start = build_tiny_llava(texts, tmp_path / "start" / "model", config=shape, images=images, seed=1)
    table = instructions_table(tmp_path / "instructions")
    stages = {"model": str(start), "config": SFT | {"steps": 4}, "instructions": str(table)}
    for place in ("whole", "tuned"):
        kill = {"file": f"{place}/checkpoint-2/trainer_state.json"}
        with pytest.raises(RuntimeError, match="SIGKILL"):
            run_processes({"kill_at": kill, "vlm": stages}, tmp_path / "sharded")
    first, _ = run_processes({"vlm": stages}, tmp_path / "sharded")
    assert first["vlm"]["steps"]["aligned"] == first["vlm"]["steps"]["whole"] == [], "they had finished"
    assert first["vlm"]["steps"]["tuned"][0] == 3
    assert first["vlm"]["most"] < 0.9 * first["vlm"]["whole"]
    train_vlm(tmp_path / "alone", **stages)
    for name in ("aligned", "whole", "tuned"):
        assert_same_model(tmp_path / "sharded" / name / "model", tmp_path / "alone" / name / "model", start)


def instructions_table(folder: Path) -> Path:
    """Conversations about the squares: one turn or two, two images, and texts alone."""

    def turn(role: str, *parts: str) -> dict:
        kinds = {"<image>": {"type": "image"}}
        return {"role": role, "content": [kinds.get(part, {"type": "text", "text": part}) for part in parts]}

    rows = []
    for at, (image, prompt, caption) in enumerate(squares()):
        answer = turn("assistant", caption)
        pictured = [turn("user", "<image>", prompt), answer, *([turn("user", prompt), answer] if at % 3 else [])]
        several = [turn("user", "<image>", prompt, "<image>", prompt), answer]
        texts = [turn("user", prompt), answer]
        images, messages = (([image], pictured), ([image] * 2, several), ([], texts), ([], texts))[at % 4]
        source = {"sample_id": f"i{at}", "source": "squares"}
        rows.append({**source, "images": images, "messages": json.dumps(messages)})

    async def make(chunk: list[dict]) -> list[dict]:
        return chunk

    made_by = {"stage": "tune_vlm", "config": "c", "inputs": {}, "version": "1"}
    asyncio.run(build_table(folder, "instructions", rows, make, made_by=made_by, shard_size=64))
    return folder


def test_genrms_sft_and_rlvr_killed_and_resumed_are_those_of_one_process(students, tmp_path, monkeypatch):
    for name in ("_generate_and_score_completions", "_generate_single_turn"):
        monkeypatch.setattr(PolicyTrainer, name, getattr(PolicyTrainer, name))
    rlvr = GENRM | {"steps": 4, "save_every": 2}
    tasks = {
        "genrm_sft": {"model": students["text"], "config": SFT | {"rows_per_pass": 2}},
        "genrm": {"model": students["text"], "config": rlvr},
    }
    for place in ("genrm_sft", "genrm"):
        kill = {"file": f"{place}/checkpoint-2/trainer_state.json"}
        with pytest.raises(RuntimeError, match="SIGKILL"):
            run_processes({"kill_at": kill, **tasks}, tmp_path / "two")
        assert not (tmp_path / "two" / place / "model").exists()
    first, _ = run_processes(tasks, tmp_path / "two")
    assert first["genrm_sft"]["steps"] == [], "it had finished"
    assert len(first["genrm"]["rewards"]) == 4
    start = Path(students["text"])
    train_genrm_sft(tmp_path / "one", **tasks["genrm_sft"])
    alone = train_genrm(tmp_path / "one", **tasks["genrm"])
    for place in tasks:
        assert_same_model(tmp_path / "two" / place / "model", tmp_path / "one" / place / "model", start)
    assert first["genrm"]["rewards"] == pytest.approx(alone["rewards"])


@pytest.mark.parametrize("task", ["sft", "policy", "genrm"])
def test_no_process_holds_the_whole_model_while_it_trains(sharded, task):
    for process in (result[task] for result in sharded[1]):
        assert process["whole"] / 2 <= process["most"] < 0.9 * process["whole"]


def test_the_first_process_alone_reads_the_weights(tmp_path):
    shape = TinyTextConfig(hidden=1024, layers=6, heads=4, intermediate=2048)
    model = build_text_student(["one text"], tmp_path / "model", config=shape, seed=1)
    first, second = (result["load"] for result in run_processes({"load": {"model": str(model)}}, tmp_path))
    assert first["weights"] == second["weights"] > 100 * 2**20
    assert first["grown"] > 0.9 * first["weights"]
    assert second["grown"] < 0.1 * second["weights"]


@pytest.mark.parametrize(
    ("task", "of", "train"), [("policy", "student", train_on_squares), ("genrm", "text", train_genrm)]
)
def test_recorded_rollouts_give_the_step_of_one_process(students, sharded, tmp_path, monkeypatch, task, of, train):
    for name in ("_generate_and_score_completions", "_generate_single_turn"):
        monkeypatch.setattr(PolicyTrainer, name, getattr(PolicyTrainer, name))
    folder, results = sharded
    alone = train(tmp_path, students[of], POLICY if task == "policy" else GENRM)
    assert_same_model(folder / task / "model", tmp_path / task / "model", Path(students[of]))
    assert results[0][task]["rewards"] == pytest.approx(alone["rewards"])


def test_killed_process_ends_the_training_and_the_next_attempt_resumes(students, sharded, tmp_path):
    tasks = {
        "kill_at": {"file": "sft/checkpoint-2/trainer_state.json"},
        "sft": {"model": students["student"], "config": SFT},
    }
    with pytest.raises(RuntimeError, match="SIGKILL"):
        run_processes(tasks, tmp_path)
    assert not (tmp_path / "sft" / "model").exists()
    first, _ = run_processes({"sft": tasks["sft"]}, tmp_path)
    assert first["sft"]["steps"][0] in (3, 5)
    actual, expected = (load_file(folder / "sft" / "model" / "model.safetensors") for folder in (tmp_path, sharded[0]))
    for name, weights in expected.items():
        torch.testing.assert_close(actual[name], weights, rtol=0, atol=1e-6, msg=name)


def test_vision_model_trained_on_texts_resumes_from_a_sharded_checkpoint(students, tmp_path):
    tasks = {"text_sft": {"model": students["student"], "config": SFT}}
    run_processes(tasks, tmp_path)
    folder = tmp_path / "text_sft"
    whole = load_file(folder / "model" / "model.safetensors")
    shutil.rmtree(folder / "model")
    shutil.rmtree(folder / f"checkpoint-{SFT['steps']}")
    first, _ = run_processes(tasks, tmp_path)
    assert first["text_sft"]["steps"] == [SFT["steps"] - 1, SFT["steps"]]
    for name, weights in load_file(folder / "model" / "model.safetensors").items():
        torch.testing.assert_close(weights, whole[name], rtol=0, atol=1e-6, msg=name)


def test_checkpointed_activations_gather_no_shard_more_often_and_train_the_same(students, tmp_path):
    config = {**SFT, "steps": 2}
    tasks = {
        name: {"model": students["student"], "config": {**config, "gradient_checkpointing": checkpointing}}
        for name, checkpointing in (("checkpointed", True), ("plain", False))
    }
    first, _ = run_processes({"count_gathers": tasks}, tmp_path)
    counts = first["count_gathers"]
    assert counts["checkpointed"]["runs"] > 1.5 * counts["plain"]["runs"]
    assert counts["checkpointed"]["gathers"] == counts["plain"]["gathers"] > 0
    checkpointed, plain = (tmp_path / name / "sft" / "model" for name in tasks)
    assert_same_model(checkpointed, plain, Path(students["student"]))


def test_rollouts_are_drawn_from_the_sharded_policy(students, tmp_path):
    config = POLICY | {"save_every": 1}
    results = run_processes({"policy": {"model": students["student"], "config": config, "recorded": False}}, tmp_path)
    assert len(results[0]["policy"]["rewards"]) == POLICY["steps"]
    state = json.loads((tmp_path / "drawn" / "checkpoint-2" / "trainer_state.json").read_text())
    assert state["global_step"] == 2


@pytest.fixture(scope="module")
def generators(tmp_path_factory):
    from tiny_generator import TINY, captioned_pictures
    from tiny_vq_models import save_emu3, save_janus

    from rubricworks.training.generators.tiny_ar import pretrain_tiny_ar

    folder = tmp_path_factory.mktemp("generators")
    tiny = pretrain_tiny_ar(*captioned_pictures(64), folder / "tiny", TINY.model_copy(update={"steps": 2}), seed=1)
    return {"tiny": tiny, "emu3": save_emu3(folder / "emu3"), "janus": save_janus(folder / "janus")}


@pytest.mark.parametrize(("name", "sharded"), [("tiny", False), ("tiny", True), ("emu3", True), ("janus", True)])
def test_image_generator_in_two_processes_ends_in_the_model_of_one(generators, tmp_path, monkeypatch, name, sharded):
    """Each process draws the prompts that replace those without a signal, as many as the other one."""
    from rubricworks.training.generators.autoregressive import CodeGenerator

    monkeypatch.setattr(CodeGenerator, "sample", CodeGenerator.sample)  # which the recorded images replace
    model = generators[name]
    config = {"steps": 1, "group_size": 4, "prompts_per_step": 2, "learning_rate": 1e-3, "refill": {"rounds": 5}}
    config["gradient_checkpointing"] = True
    tasks = {"generator": {"model": str(model), "config": config}}
    first, _ = run_processes(tasks, tmp_path / "two", sharded=sharded)
    whole = train_generator(tmp_path / "one", str(model), config)
    assert first["generator"]["trained"] == whole["trained"]
    assert all(len(names) == 2 and not {"s0", "s1"} & set(names) for names in whole["trained"])
    of_two, of_one = (tmp_path / folder / "generator" / "model" for folder in ("two", "one"))
    assert_same_model(of_two, of_one, model)
    assert {path.name for path in of_two.iterdir()} == {path.name for path in of_one.iterdir()}


def test_sharded_image_generator_draws_and_resumes_with_the_same_weights(generators, tmp_path):
    config = {"steps": 2, "group_size": 4, "prompts_per_step": 2, "learning_rate": 1e-3, "save_every": 1}
    tasks = {"generator": {"model": str(generators["emu3"]), "config": config, "recorded": False}}
    run_processes(tasks, tmp_path)
    trained = tmp_path / "generator"
    whole = load_file(trained / "model" / "model.safetensors")
    shutil.rmtree(trained / "model")
    shutil.rmtree(trained / "checkpoint-2")
    run_processes(tasks, tmp_path)
    resumed = load_file(trained / "model" / "model.safetensors")
    for name, weights in whole.items():
        torch.testing.assert_close(resumed[name], weights, rtol=0, atol=1e-6, msg=name)
    start = load_file(generators["emu3"] / "model.safetensors")
    assert start.keys() == whole.keys()
    assert any(not start[name].equal(weights) for name, weights in whole.items())
    assert all(start[name].equal(weights) for name, weights in whole.items() if "vqmodel" in name)


@pytest.mark.parametrize("name", ["tiny", "emu3"])
def test_image_generator_under_fsdp_killed_and_resumed_is_that_of_one_process(generators, tmp_path, monkeypatch, name):
    from rubricworks.training.generators.autoregressive import CodeGenerator

    monkeypatch.setattr(CodeGenerator, "sample", CodeGenerator.sample)  # which the recorded images replace
    model = generators[name]
    config = {"steps": 4, "group_size": 4, "prompts_per_step": 2, "learning_rate": 1e-3, "save_every": 2}
    tasks = {"generator": {"model": str(model), "config": config}}
    kill = {"file": "generator/checkpoint-2/trainer_state.json"}
    with pytest.raises(RuntimeError, match="SIGKILL"):
        run_processes({"kill_at": kill, **tasks}, tmp_path / "two")
    assert not (tmp_path / "two" / "generator" / "model").exists()
    first, _ = run_processes(tasks, tmp_path / "two")
    whole = train_generator(tmp_path / "one", str(model), config)
    assert len(first["generator"]["trained"]) < 4, "it goes on from a checkpoint"
    assert first["generator"]["rewards"] == pytest.approx(whole["rewards"])
    assert_same_model(tmp_path / "two" / "generator" / "model", tmp_path / "one" / "generator" / "model", model)


FLOW_FILE = "transformer/diffusion_pytorch_model.safetensors"
ADAPTERS = {"rank": 4, "alpha": 8, "targets": ["to_q", "to_k", "to_v"]}


@pytest.fixture(scope="module")
def flow(tmp_path_factory):
    from tiny_flow_generator import TINY_FLOW
    from tiny_generator import captioned_pictures

    from rubricworks.training.generators.flow_matching.tiny_flow import pretrain_tiny_flow

    shape = TINY_FLOW.model_copy(update={"steps": 20})
    return pretrain_tiny_flow(*captioned_pictures(64), tmp_path_factory.mktemp("flow"), shape, seed=1)


@pytest.mark.parametrize(
    "more", [{"lora": ADAPTERS}, {"refill": {"rounds": 2}, "rows_per_pass": 4, "selection": {"keep": 2}}],
    ids=["adapters", "whole, refilled"],
)  # fmt: skip
def test_diffusion_nft_in_two_processes_killed_and_resumed_is_that_of_one(flow, tmp_path, more):
    config = {
        "steps": 4, "group_size": 4, "prompts_per_step": 2, "learning_rate": 1e-3, "save_every": 2, "log_every": 1,
        "clip": 2.0, "kl_weight": 0.1, "decay_rate": 0.5, "levels_per_image": 2, **more,
    }  # fmt: skip
    tasks = {"diffusion": {"model": str(flow), "config": config}}
    kill = {"file": "diffusion/checkpoint-2/trainer_state.json"}
    with pytest.raises(RuntimeError, match="SIGKILL"):
        run_processes({"kill_at": kill, **tasks}, tmp_path / "two")
    assert not (tmp_path / "two" / "diffusion" / "model").exists()
    first, second = (result["diffusion"] for result in run_processes(tasks, tmp_path / "two"))
    whole = train_diffusion(tmp_path / "one", str(flow), config)
    assert_same_model(
        tmp_path / "two" / "diffusion" / "model", tmp_path / "one" / "diffusion" / "model", flow, FLOW_FILE
    )
    assert first["rewards"] == pytest.approx(whole["rewards"], abs=1e-4)
    assert second["steps"] == [], "the main process alone hands rollouts out"
    for step, alone in zip(reversed(first["steps"]), reversed(whole["steps"]), strict=False):
        assert sorted(step["names"]) == sorted(alone["names"])
        own = step["own"]
        assert 0 < len(own) < len(step["names"])
        assert step["names"][: len(own)] == own, "the gradings that are stored are those of the first rows"
        values, expected = ([value for value in of["advantages"] if value is not None] for of in (step, alone))
        assert sorted(values) == pytest.approx(sorted(expected), abs=1e-3)
