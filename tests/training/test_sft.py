import shutil
from functools import partial

import pytest
import torch
from coloured_squares import PROMPT, square, squares
from safetensors.torch import load_file
from training_configs import sft_config

from rubricworks.errors import UserError
from rubricworks.training import sft
from rubricworks.training.config import LoraOptimizer, LoraOptions
from rubricworks.training.generate import generate_captions, load_model
from rubricworks.training.lora import save_plain_model
from rubricworks.training.sft import CaptionCollator, Example, train_sft


class Killed(Exception):
    pass


def kill_at(step):
    def on_log(log):
        if log.step == step:
            raise Killed

    return on_log


@pytest.mark.slow
def test_warm_up_teaches_the_student_to_see(student, tmp_path):
    losses = []
    config = sft_config(steps=120, batch_size=12, learning_rate=1e-2, save_every=1000, log_every=20)
    model_dir = train_sft(
        student, squares(), tmp_path, config, on_log=lambda log: losses.append(log.metrics.get("loss", 0.0))
    )
    model, processor = load_model(model_dir)
    images, prompts, captions = zip(*squares(), strict=True)
    texts = generate_captions(model, processor, images, prompts, max_new_tokens=12)
    right = sum(text == caption for (text, _), caption in zip(texts, captions, strict=True))
    assert losses[0] > 2 * losses[4]
    assert right >= 10  # 12 pictures; a student that reads the prompt alone gets at most 1
    assert all(tokens == 7 for _, tokens in texts)  # six words and the end token


@pytest.mark.slow
@pytest.mark.parametrize("lora", [None, LoraOptions(rank=2, dropout=0.1)])
def test_killed_and_resumed_warm_up_ends_with_the_same_weights(student, tmp_path, lora):
    config = sft_config(steps=8, batch_size=5, save_every=3, log_every=1, lora=lora)
    whole = train_sft(student, squares(), tmp_path / "whole", config)
    with pytest.raises(Killed):
        train_sft(student, squares(), tmp_path / "cut", config, on_log=kill_at(5))
    calls = []
    resumed = train_sft(student, squares(), tmp_path / "cut", config, on_log=lambda log: calls.append(log.step))
    assert calls[0] == 4  # not from the beginning
    expected, actual = (load_file(folder / "model.safetensors") for folder in (whole, resumed))
    assert expected.keys() == actual.keys()
    assert all(torch.equal(expected[name], actual[name]) for name in expected)


def weights(model_dir):
    return load_file(model_dir / "model.safetensors")


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


OTHERS = [(image, prompt, "a red square at top-left .") for image, prompt, _ in squares()]
"""Held-out captions that the training, which learns other ones, soon makes unlikely."""
RISING = {"steps": 60, "batch_size": 6, "learning_rate": 1e-2, "log_every": 2}


@pytest.mark.slow
def test_training_stops_when_held_out_loss_rises_with_the_weights_of_its_minimum(student, tmp_path):
    measures = {}

    def listen(log):
        if "held_out_loss" in log.metrics:
            measures[log.step] = log.metrics["held_out_loss"]

    stopped = train_sft(student, squares(), tmp_path / "stopped", sft_config(**RISING), held_out=OTHERS, on_log=listen)
    best = min(measures, key=measures.get)
    assert 0 < best < max(measures) < 60
    assert list(measures)[-3:] == [best, best + 2, best + 4]
    assert all(loss > 1.01 * measures[best] for step, loss in measures.items() if step > best)
    images, prompts, captions = zip(*OTHERS, strict=True)
    model, processor = load_model(stopped)
    total = tokens = 0
    for example in map(Example, images, prompts, captions):
        batch = CaptionCollator(processor)([example])
        count = int((batch["labels"][:, 1:] != -100).sum())
        with torch.no_grad():
            total += float(model.eval()(**batch).loss) * count
        tokens += count
    assert total / tokens == pytest.approx(measures[best], rel=1e-3)


@pytest.mark.slow
def test_killed_training_stops_at_the_same_minimum(student, tmp_path):
    config = sft_config(**RISING, save_every=3)
    steps = []
    whole = train_sft(
        student, squares(), tmp_path / "whole", config, held_out=OTHERS, on_log=lambda log: steps.append(log.step)
    )
    for step in (steps[-1], steps[len(steps) // 2]):
        folder = tmp_path / f"cut-{step}"
        with pytest.raises(Killed):
            train_sft(student, squares(), folder, config, held_out=OTHERS, on_log=kill_at(step))
        assert same(weights(train_sft(student, squares(), folder, config, held_out=OTHERS)), weights(whole)), step
    shutil.rmtree(whole)  # killed after the stop, before the model was saved
    again = train_sft(student, squares(), tmp_path / "whole", config, held_out=OTHERS)
    assert same(weights(again), weights(tmp_path / f"cut-{steps[-1]}" / "model"))


@pytest.mark.slow
def test_training_whose_held_out_loss_falls_has_the_same_weights_as_unmeasured(student, tmp_path):
    config = sft_config(steps=8, batch_size=5, log_every=2, lora=LoraOptions(rank=2, dropout=0.1))
    plain = train_sft(student, squares(), tmp_path / "plain", config)
    measured = train_sft(student, squares(), tmp_path / "measured", config, held_out=squares())
    assert same(weights(plain), weights(measured))


def test_kill_between_the_last_step_and_the_saved_model_adds_no_step(student, tmp_path):
    config = sft_config(steps=3, batch_size=4, log_every=1)
    model_dir = train_sft(student, squares(), tmp_path, config)
    expected = load_file(model_dir / "model.safetensors")
    shutil.rmtree(model_dir)
    actual = load_file(train_sft(student, squares(), tmp_path, config) / "model.safetensors")
    assert all(torch.equal(expected[name], actual[name]) for name in expected)


def test_half_written_checkpoint_is_passed_over(student, tmp_path):
    config = sft_config(steps=4, batch_size=4, save_every=2, log_every=1)
    with pytest.raises(Killed):
        train_sft(student, squares(), tmp_path, config, on_log=kill_at(3))
    (tmp_path / "checkpoint-3").mkdir()
    (tmp_path / "checkpoint-3" / "model.safetensors").write_bytes(b"cut off")
    calls = []
    train_sft(student, squares(), tmp_path, config, on_log=lambda log: calls.append(log.step))
    assert calls[0] == 3


@pytest.mark.slow
def test_training_continues_in_a_moved_folder_and_not_from_another_model(student, tmp_path):
    config = sft_config(steps=4, batch_size=4, save_every=2, log_every=1)
    before = shutil.copytree(student, tmp_path / "before" / "model")
    with pytest.raises(Killed):
        train_sft(before, squares(), tmp_path / "before" / "trained", config, on_log=kill_at(3))
    moved = (tmp_path / "before").rename(tmp_path / "after")
    other = shutil.copytree(moved, tmp_path / "other")
    (other / "model" / "generation_config.json").write_text('{"do_sample": true}')
    calls = {moved: [], other: []}
    for folder, steps in calls.items():
        on_log = partial(lambda steps, log: steps.append(log.step), steps)
        train_sft(folder / "model", squares(), folder / "trained", config, on_log=on_log)
    assert calls[moved][0] == 3
    assert calls[other][0] == 1


def test_checkpoints_of_another_config_are_not_continued(student, tmp_path):
    train_sft(student, squares(), tmp_path, sft_config(steps=2, batch_size=4, log_every=1))
    calls = []
    config = sft_config(steps=3, batch_size=4, log_every=1, learning_rate=1e-4)
    train_sft(student, squares(), tmp_path, config, on_log=lambda log: calls.append(log.step))
    assert calls[0] == 1


@pytest.mark.slow
def test_merged_lora_model_is_plain_and_says_what_the_adapted_one_said(student, tmp_path, monkeypatch):
    from rubricworks.training import lora

    before_merging = []
    images, prompts, _ = zip(*squares(), strict=True)

    def save(model, processor, out, **options):
        before_merging.extend(generate_captions(model, processor, images, prompts, max_new_tokens=8))
        return save_plain_model(model, processor, out, **options)

    save_plain_model = lora.save_plain_model
    monkeypatch.setattr(lora, "save_plain_model", save)
    config = sft_config(steps=20, batch_size=12, learning_rate=1e-2, lora=LoraOptions(rank=8), save_every=100)
    model_dir = train_sft(student, squares(), tmp_path, config)
    names = {file.name for file in model_dir.iterdir()}
    assert "model.safetensors" in names
    assert not any("adapter" in name or name.endswith(".bin") for name in names)
    trained, untouched = load_file(model_dir / "model.safetensors"), load_file(student / "model.safetensors")
    assert trained.keys() == untouched.keys()
    model, processor = load_model(model_dir)
    assert generate_captions(model, processor, images, prompts, max_new_tokens=8) == before_merging
    base, _ = load_model(student)
    assert generate_captions(base, processor, images, prompts, max_new_tokens=8) != before_merging


def test_labels_cover_the_caption_and_its_end_token_only(student):
    _, processor = load_model(student)
    batch = CaptionCollator(processor)(
        [
            Example(square("top-left", "red"), PROMPT, "at top-left a red square ."),
            Example(square("top-left", "red"), PROMPT, "a square ."),
        ]
    )
    end = processor.tokenizer.eos_token_id
    learnt = [row[row != -100].tolist() for row in batch["labels"]]
    assert [processor.tokenizer.decode(ids[:-1]) for ids in learnt] == ["at top-left a red square .", "a square ."]
    assert all(ids[-1] == end for ids in learnt)
    assert batch["input_ids"].shape == batch["labels"].shape == batch["mm_token_type_ids"].shape


@pytest.mark.slow
@pytest.mark.parametrize("lora", [None, LoraOptions(rank=2)])
@pytest.mark.parametrize("images", [True, False])
def test_logits_are_computed_for_answers_only_and_train_the_same(student, tmp_path, monkeypatch, lora, images):
    """Cut logits against those at all positions: the same weights after steps of two unequal passes."""
    prompts = ["describe", "describe the image .", "at top-left a red square ."]
    rows = [
        (image if images else None, prompts[at % 3], caption if at % 2 else caption.split(" a ")[0])
        for at, (image, _, caption) in enumerate(squares())
    ]
    config = sft_config(steps=3, batch_size=6, rows_per_pass=3, learning_rate=1e-2, save_every=1000, lora=lora)
    batches: list[torch.Tensor] = []
    collate = CaptionCollator.__call__

    def noted(self, examples):
        batch = collate(self, examples)
        batches.append(batch["labels"])
        return batch

    monkeypatch.setattr(CaptionCollator, "__call__", noted)
    size = load_model(student)[0].get_output_embeddings().out_features
    counts: list[int] = []

    def count(module, _, output):
        if batches and isinstance(module, torch.nn.Linear) and module.out_features == size:
            counts.append(output.numel() // size)

    hook = torch.nn.modules.module.register_module_forward_hook(count)
    cut = train_sft(student, rows, tmp_path / "cut", config)
    hook.remove()
    used = batches[: len(counts)]  # the loader is one batch ahead
    assert counts == [int((labels != -100).sum()) for labels in used]
    assert sum(counts) < sum(labels.numel() for labels in used) / 1.3
    monkeypatch.setattr(sft, "labelled_positions", lambda labels: {})
    whole = train_sft(student, rows, tmp_path / "whole", config)
    expected, actual, start = (load_file(folder / "model.safetensors") for folder in (whole, cut, student))
    moved = max(float((expected[name] - start[name]).abs().max()) for name in expected)
    apart = max(float((expected[name] - actual[name]).abs().max()) for name in expected)
    assert moved > 1e-3
    assert apart < moved / 1000


def test_rows_per_pass_must_divide_the_batch(student, tmp_path):
    with pytest.raises(UserError, match="rows_per_pass"):
        train_sft(student, squares(), tmp_path, sft_config(batch_size=8, rows_per_pass=3))


def test_no_examples_is_one_clear_error(student, tmp_path):
    with pytest.raises(UserError, match="no examples"):
        train_sft(student, [], tmp_path, sft_config())


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_bf16_without_a_gpu_is_refused_at_the_start(student, tmp_path):
    with pytest.raises(UserError, match=r"optimizer\.precision is bfloat16: there is no GPU here"):
        train_sft(student, squares(), tmp_path, sft_config(precision="bfloat16"))


def test_one_process_that_sees_several_gpus_is_refused(student, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    with pytest.raises(UserError, match=r"^one process sees 8 GPUs, and would train on all of them at 8 times the"):
        train_sft(student, squares(), tmp_path, sft_config(steps=1))


@pytest.mark.parametrize(
    ("processes", "options", "message"),
    [
        ("3", {}, r"^batch_size 4 does not divide over 3 processes; make it a multiple of their number$"),
        ("2", {"rows_per_pass": 4}, r"^rows_per_pass 4 does not divide the 2 examples per process; make it a divisor$"),
        ("1", {"rows_per_pass": 3}, r"^rows_per_pass 3 does not divide batch_size 4; make it a divisor$"),
    ],
)
def test_batch_that_the_processes_cannot_share_is_refused(student, tmp_path, monkeypatch, processes, options, message):
    monkeypatch.setenv("WORLD_SIZE", processes)
    with pytest.raises(UserError, match=message):
        train_sft(student, squares(), tmp_path, sft_config(steps=1, batch_size=4, **options))


@pytest.mark.parametrize(("config", "trained"), [({"precision": "bfloat16"}, "bfloat16"), ({}, "float32")])
def test_weights_are_trained_and_saved_in_the_precision_of_the_config(student, tmp_path, monkeypatch, config, trained):
    from rubricworks.training import sft

    precisions = set()

    def loaded(*args, **options):
        model, processor = load_model(*args, **options)
        precisions.update(str(parameter.dtype) for parameter in model.parameters())
        return model, processor

    monkeypatch.setattr(sft, "check_precision", lambda optimizer: None)  # bf16 is missing here
    monkeypatch.setattr(sft, "load_model", loaded)
    model_dir = train_sft(student, squares(), tmp_path, sft_config(steps=2, batch_size=4, **config))
    assert precisions == {f"torch.{trained}"}
    weights = load_file(model_dir / "model.safetensors")
    assert weights.keys() == load_file(student / "model.safetensors").keys()
    assert {str(weight.dtype) for weight in weights.values()} == precisions
    model, _ = load_model(model_dir)
    assert str(model.dtype) == f"torch.{trained}"


@pytest.mark.parametrize(
    ("options", "autocasts"),
    [
        ({"precision": "bfloat16"}, False),
        ({"precision": "mixed"}, True),
        ({"precision": "bfloat16", "lora": LoraOptions()}, True),
        ({"precision": "float32"}, False),
    ],
)
def test_arithmetic_is_bfloat16_around_float32_weights_or_adapters(options, autocasts):
    assert LoraOptimizer(**options).autocasts is autocasts


def test_master_weights_are_saved_in_bfloat16(student, tmp_path):
    model, processor = load_model(student, dtype="float32")
    saved = save_plain_model(model, processor, tmp_path / "model", dtype=torch.bfloat16)
    weights, own = load_file(saved / "model.safetensors"), load_file(student / "model.safetensors")
    assert weights.keys() == own.keys()
    assert all(torch.equal(weights[name], own[name].bfloat16()) for name in own)
    assert str(load_model(saved)[0].dtype) == "torch.bfloat16"
