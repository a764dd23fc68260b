import json
import logging
import shutil

import pytest
import torch
from coloured_squares import PROMPT, policy_rows, squares
from pydantic import ValidationError
from safetensors.torch import load_file
from training_configs import grpo_config, sft_config

from rubricworks.errors import UserError
from rubricworks.training.checkpoints import last_step
from rubricworks.training.config import LoraOptions
from rubricworks.training.generate import generate_captions, load_model
from rubricworks.training.policy.grpo import train_policy
from rubricworks.training.policy.response_statistics import LENGTH
from rubricworks.training.policy.watch import PolicyWatch
from rubricworks.training.sft import train_sft

pytestmark = pytest.mark.slow

JUDGE = {"url": "http://127.0.0.1:1/v1", "model": "judge"}
FEW = {"group_size": 4, "prompts_per_step": 2, "max_new_tokens": 8, "log_every": 1}


async def says_red(prompts, completions, **columns):
    return [float("red" in completion[0]["content"]) for completion in completions]


class Killed(Exception):
    pass


def weights(model_dir):
    return load_file(model_dir / "model.safetensors")


@pytest.fixture(scope="module")
def warmed(student, tmp_path_factory):
    config = sft_config(steps=40, batch_size=12, learning_rate=1e-2, save_every=1000)
    return train_sft(student, squares(), tmp_path_factory.mktemp("warm"), config)


def test_policy_learns_what_the_reward_pays_for(warmed, tmp_path):
    config = grpo_config(steps=25, learning_rate=5e-3, save_every=1000, **{**FEW, "group_size": 8})
    result = train_policy(warmed, policy_rows(), says_red, tmp_path, config)
    start = sum(stats.reward for stats in result.history[:5]) / 5
    end = sum(stats.reward for stats in result.history[-5:]) / 5
    assert len(result.history) == result.steps == 25
    assert start < 0.6
    assert end > start + 0.3
    model, processor = load_model(result.model_dir)
    blue = [image for image, _, caption in squares() if "blue" in caption]
    captions = generate_captions(model, processor, blue, [PROMPT] * 4, max_new_tokens=8)
    assert sum("red" in caption for caption, _ in captions) >= 3


def test_every_rollout_is_handed_out_once_with_its_reward_and_advantage(warmed, tmp_path):
    steps, calls = [], []

    async def reward(prompts, completions, sample_id, rubric, **columns):
        values = [None if index == 1 else float(index) for index in range(len(completions))]
        calls.append((list(sample_id), [completion[0]["content"] for completion in completions], values))
        return values

    config = grpo_config(steps=3, rows_per_pass=4, advantages="centred", **FEW)
    train_policy(warmed, policy_rows(), reward, tmp_path, config, on_step=steps.append)
    assert [step.step for step in steps] == [1, 2, 3]
    for step, (sample_ids, responses, values) in zip(steps, calls, strict=True):
        assert step.sample_ids == sample_ids
        assert step.responses == responses
        assert step.rewards == values
        assert step.advantages == pytest.approx([-5 / 3, 0, 1 / 3, 4 / 3, -1.5, -0.5, 0.5, 1.5], abs=1e-5)
        assert all(1 <= tokens <= 8 for tokens in step.tokens)


REUSE = {"num_iterations": 2, "steps_per_generation": 2}


@pytest.mark.parametrize("reuse", [{}, {"num_iterations": 3}, {"steps_per_generation": 3}, REUSE])
def test_ratios_are_clipped_once_rollouts_serve_several_updates(warmed, tmp_path, reuse):
    logs, steps = [], []
    config = grpo_config(steps=6, learning_rate=2e-2, rows_per_pass=4, **reuse, **FEW)
    train_policy(warmed, policy_rows(), alternating, tmp_path, config, on_step=steps.append, on_log=logs.append)
    ratios = [log.metrics["clip_ratio/region_mean"] for log in logs]
    every = reuse.get("num_iterations", 1) * reuse.get("steps_per_generation", 1)
    assert [step.step for step in steps] == list(range(1, 7, every))
    assert {len(step.responses) for step in steps} == {8 * reuse.get("steps_per_generation", 1)}
    assert [ratios[step.step - 1] for step in steps] == [0.0] * len(steps)  # the policy drew them itself
    assert (max(ratios) > 0) == (every > 1)


def test_dual_clip_bounds_the_loss_of_what_became_likelier_and_is_punished(warmed, tmp_path):
    def trained(name, **options):
        config = grpo_config(steps=4, num_iterations=4, learning_rate=5e-2, epsilon=1e6, **options, **FEW)
        return weights(train_policy(warmed, policy_rows(), alternating, tmp_path / name, config).model_dir)

    free, bounded = trained("free"), trained("bounded", delta=1.01)
    assert any(not torch.equal(free[name], bounded[name]) for name in free)


async def alternating(prompts, completions, **columns):
    return [float(index % 2) for index in range(len(completions))]


def test_rollouts_of_a_plan_are_those_that_are_drawn(warmed, tmp_path):
    for number, options in enumerate(({}, REUSE, {"num_iterations": 5}, {"steps": None, "epochs": 2.0, **REUSE})):
        steps = []
        config = grpo_config(**{"steps": 6, **FEW, "group_size": 2, **options})
        result = train_policy(warmed, policy_rows(), says_red, tmp_path / str(number), config, on_step=steps.append)
        drawn = sum(len(step.responses) for step in steps)
        assert (result.steps, drawn) == (config.steps_on(len(policy_rows())), config.rollouts_on(len(policy_rows())))


def test_a_generation_takes_the_samples_of_all_its_steps(warmed, tmp_path):
    config = grpo_config(steps=2, steps_per_generation=50, **FEW)
    with pytest.raises(UserError, match="prompts_per_step is 2 and steps_per_generation 50"):
        train_policy(warmed, policy_rows(), says_red, tmp_path, config)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="all weights"),
        pytest.param({"lora": LoraOptions(rank=2)}, id="lora", marks=pytest.mark.slow),
        pytest.param({"steps_per_generation": 2, "save_every": 1}, id="two steps a generation", marks=pytest.mark.slow),
        pytest.param({"num_iterations": 2}, id="two passes", marks=pytest.mark.slow),
    ],
)
def test_killed_and_resumed_policy_ends_with_the_same_weights(warmed, tmp_path, options):
    config = grpo_config(**{"steps": 6, "save_every": 2, "learning_rate": 1e-3, **options, **FEW})
    whole_steps, cut_steps = {}, {}

    def keep(table):
        return lambda step: table.__setitem__(step.step, step)

    def kill_after_5(step):
        cut_steps[step.step] = step
        if step.step == 5 and last_step(tmp_path / "cut") == 4:
            raise Killed

    whole = train_policy(warmed, policy_rows(), says_red, tmp_path / "whole", config, on_step=keep(whole_steps))
    with pytest.raises(Killed):
        train_policy(warmed, policy_rows(), says_red, tmp_path / "cut", config, on_step=kill_after_5)
    calls = []
    resumed = train_policy(
        warmed,
        policy_rows(),
        says_red,
        tmp_path / "cut",
        config,
        on_step=lambda step: (calls.append(step.step), keep(cut_steps)(step)),
    )
    assert calls == ([5] if config.generation_every == 2 else [5, 6])
    assert cut_steps == whole_steps
    assert str(resumed.history) == str(whole.history)  # NaN, where no held-out judge was asked, equals nothing
    expected, actual = weights(whole.model_dir), weights(resumed.model_dir)
    assert all(torch.equal(expected[name], actual[name]) for name in expected)
    assert not any("adapter" in file.name for file in resumed.model_dir.iterdir())
    untouched = weights(warmed)
    assert any(not torch.equal(expected[name], untouched[name]) for name in expected)


@pytest.mark.parametrize("model_was_written", [True, False])
def test_finished_training_is_not_run_again(warmed, tmp_path, model_was_written):
    config = grpo_config(steps=2, learning_rate=1e-3, **FEW)
    first = train_policy(warmed, policy_rows(), says_red, tmp_path, config)
    expected = weights(first.model_dir)
    if not model_was_written:
        shutil.rmtree(first.model_dir)
    handed = []
    again = train_policy(warmed, policy_rows(), says_red, tmp_path, config, on_step=handed.append)
    assert handed == []
    assert again.steps == 2
    assert all(torch.equal(expected[name], tensor) for name, tensor in weights(again.model_dir).items())


def test_training_goes_on_where_its_folder_and_its_model_were_moved(student, tmp_path):
    config = grpo_config(steps=2, save_every=1, **FEW)
    before = shutil.copytree(student, tmp_path / "before" / "model").parent

    def kill_at_2(step):
        if step.step == 2:
            raise Killed

    with pytest.raises(Killed):
        train_policy(before / "model", policy_rows(), says_red, before / "trained", config, on_step=kill_at_2)
    moved = before.rename(tmp_path / "after")
    handed = []
    train_policy(moved / "model", policy_rows(), says_red, moved / "trained", config, on_step=handed.append)
    assert [step.step for step in handed] == [2]


@pytest.mark.parametrize("sharded", [True, False])
def test_model_that_was_half_written_by_a_kill_is_written_again(student, tmp_path, monkeypatch, sharded):
    config = grpo_config(steps=1, **FEW)
    monkeypatch.setattr(
        "rubricworks.training.policy.run.train_from",
        lambda trainer, checkpoint, stopped: setattr(trainer, "is_fsdp_enabled", sharded),
    )

    def killed(*args, **options):
        raise Killed

    with monkeypatch.context() as cut:
        cut.setattr("transformers.ProcessorMixin.save_pretrained", killed)
        with pytest.raises(Killed):
            train_policy(student, policy_rows(), says_red, tmp_path, config)
    assert not (tmp_path / "model").exists()
    result = train_policy(student, policy_rows(), says_red, tmp_path, config)
    assert weights(result.model_dir).keys() == weights(student).keys()
    load_model(result.model_dir)
    assert not list(tmp_path.glob("*.part"))


def test_refresh_and_probe_see_the_policy_as_it_is(warmed, tmp_path):
    images = [row["image"] for row in policy_rows()]
    refreshed, probed = [], []

    def refresh(step, generate):
        refreshed.append((step, generate(images, [PROMPT] * len(images), temperature=1.0, seed=step)))

    def probe(step, generate):
        probed.append((step, generate(images[:1], [PROMPT])))
        return [0.9 - 0.1 * step, None]

    refresh.every = probe.every = 2
    config = grpo_config(steps=5, learning_rate=2e-2, **FEW)
    result = train_policy(warmed, policy_rows(), says_red, tmp_path, config, refresh=refresh, probe=probe)
    assert [step for step, _ in refreshed] == [2, 4]
    assert refreshed[0][1] != refreshed[1][1]
    assert [step for step, _ in probed] == [0, 2, 4]
    scores = {stats.step: stats.held_out for stats in result.history if stats.held_out}
    assert scores == {1: (0.9, None), 3: (0.7, None), 5: (0.5, None)}


def test_refresh_does_not_disturb_the_rollouts(warmed, tmp_path):
    def refresh(step, generate):
        generate([policy_rows()[0]["image"]], [PROMPT], temperature=1.0, seed=9)

    rollouts = {"plain": [], "refreshed": []}
    refresh.every = 1
    for name, hook in (("plain", None), ("refreshed", refresh)):
        config = grpo_config(steps=3, **FEW)
        train_policy(
            warmed, policy_rows(), says_red, tmp_path / name, config, on_step=rollouts[name].append, refresh=hook
        )
    assert rollouts["plain"] == rollouts["refreshed"]


def fooled(on_alarm):
    """Arguments of a training whose reward rises while its held-out judge falls after step 2."""

    async def rises(completions, completion_ids, **columns):
        rises.calls += 1
        return [rises.calls * 0.05 + 0.01 * len(ids) for ids in completion_ids]

    def probe(step, generate):
        return [{0: 0.5, 2: 0.9}.get(step, 0.1) + part for part in (-0.02, 0.0, 0.02)]

    rises.calls, probe.every = 0, 2
    options = {"on_alarm": on_alarm, "probe": {"judge": JUDGE, "every": 2}}
    return rises, grpo_config(steps=20, learning_rate=1e-2, save_every=4, **options, **FEW), probe


def test_alarm_is_returned_and_stops_training_when_told_to(warmed, tmp_path, caplog):
    reward, config, probe = fooled("stop")
    with caplog.at_level(logging.WARNING):
        result = train_policy(warmed, policy_rows(), reward, tmp_path, config, probe=probe)
    assert (result.alarm.step, result.alarm.onset, result.steps) == (7, 2, 7)
    assert "reward hacking suspected at step 7, best at step 2: " in caplog.text
    assert "the held-out judge fell from 0.90 to 0.10" in result.alarm.reasons
    expected = weights(result.model_dir)
    shutil.rmtree(result.model_dir)
    again = train_policy(warmed, policy_rows(), reward, tmp_path, config, probe=probe)
    assert again.alarm == result.alarm
    assert again.steps == result.steps
    assert all(torch.equal(expected[name], tensor) for name, tensor in weights(again.model_dir).items())


def test_alarm_goes_on_when_told_to_warn(warmed, tmp_path):
    reward, config, probe = fooled("warn")
    result = train_policy(warmed, policy_rows(), reward, tmp_path, config, probe=probe)
    assert (result.alarm.step, result.steps) == (7, 20)


def test_alarm_rolls_back_to_the_policy_at_its_best_also_after_a_kill(warmed, tmp_path):
    reward, config, probe = fooled("roll_back")
    result = train_policy(warmed, policy_rows(), reward, tmp_path / "back", config, probe=probe)
    assert (result.steps, result.alarm.onset) == (7, 2)
    best = weights(tmp_path / "back" / "checkpoint-3")
    returned = weights(result.model_dir)
    assert all(torch.equal(best[name], returned[name]) for name in best.keys() & returned.keys())
    last = weights(tmp_path / "back" / "checkpoint-7")
    assert not all(torch.equal(last[name], returned[name]) for name in last.keys() & returned.keys())
    shutil.rmtree(result.model_dir)
    again = train_policy(warmed, policy_rows(), reward, tmp_path / "back", config, probe=probe)
    assert all(torch.equal(returned[name], tensor) for name, tensor in weights(again.model_dir).items())


def test_rolling_back_needs_a_probe_that_tells_where_to():
    with pytest.raises(ValidationError, match="on_alarm is roll_back, and no probe tells"):
        grpo_config(steps=9, on_alarm="roll_back")


def test_judge_that_never_answers_ends_training_with_one_clear_error(warmed, tmp_path, caplog):
    async def down(completions, **columns):
        return [None] * len(completions)

    with pytest.raises(UserError, match="no rollout could be judged"):
        train_policy(warmed, policy_rows(), down, tmp_path, grpo_config(steps=9, **FEW))
    assert "All reward functions returned None" not in caplog.text


def test_progress_lines_name_step_reward_length_pace_and_time_left(warmed, tmp_path, caplog):
    logs = []
    with caplog.at_level(logging.INFO, logger="rubricworks"):
        train_policy(warmed, policy_rows(), says_red, tmp_path, grpo_config(steps=2, **FEW), on_log=logs.append)
    lines = [record.message for record in caplog.records if record.message.startswith("policy ")]
    assert lines[0].startswith("policy 1/2 · reward ")
    assert all(part in lines[0] for part in ("tokens", "s/step", "left"))
    assert [(log.step, log.steps) for log in logs][:2] == [(1, 2), (2, 2)]


def test_statistics_file_holds_one_line_per_step(warmed, tmp_path):
    result = train_policy(warmed, policy_rows(), says_red, tmp_path, grpo_config(steps=3, **FEW))
    lines = [json.loads(line) for line in (tmp_path / "steps.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3]
    assert [line["reward"] for line in lines] == [stats.reward for stats in result.history]
    assert lines[0].keys() == {"step", "reward", "specificity", "objects", "length", "repetition", "held_out"}


def test_a_method_that_names_one_statistic_is_watched_by_that_one(warmed, tmp_path):
    options = grpo_config(steps=2, **FEW)
    train_policy(warmed, policy_rows(), says_red, tmp_path, options, statistics=(LENGTH,))
    lines = [json.loads(line) for line in (tmp_path / "steps.jsonl").read_text().splitlines()]
    assert [list(line) for line in lines] == [["step", "reward", "length", "held_out"]] * 2


def test_statistics_that_an_earlier_version_wrote_are_taken_up(tmp_path):
    written = [
        {"step": step, "reward": 0.5, "length": 18.0, "repetition": 0.1, "objects": 2.5, "held_out": None}
        for step in (1, 2, 3)
    ]
    (tmp_path / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in written))
    watch = PolicyWatch(grpo_config(steps=9, **FEW), tmp_path / "steps.jsonl", None, None, None, None)
    watch.restore(2)
    assert [(stats.step, stats.values["objects"], stats.values["length"]) for stats in watch.history] == [
        (1, 2.5, 18.0),
        (2, 2.5, 18.0),
    ]
    assert [json.loads(line) for line in (tmp_path / "steps.jsonl").read_text().splitlines()] == written[:2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group_size": 1}, "at least 2"),
        ({"steps": None}, "steps or epochs"),
        ({"rows_per_pass": 7}, "rows_per_pass"),
        ({"learning_rte": 1e-4}, "learning_rte"),
    ],
)
def test_options_that_cannot_work_are_refused_before_training(options, message):
    with pytest.raises(ValueError, match=message):
        grpo_config(**options)


@pytest.mark.parametrize(
    ("options", "rows", "message"),
    [
        ({"vllm": {"mode": "colocate"}}, policy_rows(), "vllm is not installed"),
        ({"prompts_per_step": 13}, policy_rows(), "12 samples"),
        ({}, [{"sample_id": "s", "image": b"", "prompt": "p"}] * 8, "rubric"),
    ],
)
def test_impossible_combinations_are_one_clear_error(warmed, tmp_path, options, rows, message):
    with pytest.raises(UserError, match=message):
        train_policy(warmed, rows, says_red, tmp_path, grpo_config(**options))


def test_groups_that_do_not_divide_over_the_processes_are_refused(warmed, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(UserError, match="3 processes"):
        train_policy(warmed, policy_rows(), says_red, tmp_path, grpo_config(prompts_per_step=8))


def test_what_steps_left_can_be_committed_before_each_checkpoint_the_last_one_too(warmed, tmp_path):
    steps, commits = [], []
    config = grpo_config(steps=5, save_every=2, **FEW)
    train_policy(
        warmed,
        policy_rows(),
        says_red,
        tmp_path,
        config,
        on_step=lambda step: steps.append(step.step),
        before_checkpoint=lambda: commits.append((steps[-1], last_step(tmp_path))),
    )
    assert commits == [(2, 0), (4, 2), (5, 4)]
