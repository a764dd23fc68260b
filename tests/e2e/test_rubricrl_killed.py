"""RubricRL: killed in its trainings and resumed, each kind of generator ends in the same weights."""

import pytest
from kills import continued_after, differing, products, run_with_kills, saved
from tiny_run import Run, settings

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

SMALL = {
    "world.pictures": 64,
    "data.held_out": 4,
    "data.images_per_prompt": 1,
    "data.max_train": 8,
    "rubric.queries": 1,
    "policy.steps": 6,
    "policy.save_every": 2,
    "policy.prompts_per_step": 2,
    "policy.group_size": 4,
    "policy.learning_rate": 1e-3,
}
AUTOREGRESSIVE = SMALL | {
    "warm_up.tiny_ar.hidden": 32,
    "warm_up.tiny_ar.layers": 1,
    "warm_up.tiny_ar.heads": 2,
    "warm_up.tiny_ar.intermediate": 64,
    "warm_up.tiny_ar.steps": 6,
    "warm_up.tiny_ar.batch_size": 16,
    "warm_up.tiny_ar.save_every": 2,
    "policy.selection.keep": 2,
    # Prompts that give way are drawn from the seed and the step, so a resumed training draws the same ones.
    "policy.refill": "{rounds: 2, criterion: object_count}",
}
FLOW = SMALL | {
    "warm_up.tiny_flow.hidden": 48,
    "warm_up.tiny_flow.layers": 1,
    "warm_up.tiny_flow.heads": 2,
    "warm_up.tiny_flow.steps": 6,
    "warm_up.tiny_flow.batch_size": 16,
    "warm_up.tiny_flow.save_every": 2,
}
KILLS = {
    "pretrain_generator": [("stage", saved("pretrain_generator/checkpoint-2"))],
    "train_generator": [("everything", saved("train_generator/checkpoint-2"))],
}
MADE = ["prepare_prompts", "write_prompt_rubrics", *KILLS, "score"]


@pytest.mark.parametrize(
    ("recipe", "tiny", "weights"),
    [
        ("rubricrl-ar-laptop", AUTOREGRESSIVE, "model/model.safetensors"),
        ("rubricrl-diffusion-laptop", FLOW, "model/transformer/diffusion_pytorch_model.safetensors"),
    ],
)
def test_killed_in_its_trainings_and_resumed_it_ends_as_if_it_had_never_stopped(tmp_path, recipe, tiny, weights):
    Run(tmp_path / "whole", recipe, *settings(tiny), "--run", "whole").finish()
    expected = products(tmp_path / "whole" / "whole", MADE)
    assert {f"{stage}/{weights}" for stage in KILLS} <= expected.keys()
    assert {
        "train_generator/rollouts/part-00002.parquet",
        "train_generator/scorecards/part-00002.parquet",
    } <= expected.keys()
    folder = tmp_path / "killed" / "cut"
    output = run_with_kills(folder, [recipe, *settings(tiny), "--run", "cut"], KILLS)
    assert differing(products(folder, MADE), expected) == []
    assert continued_after("pretraining", output) == [2]
    assert continued_after("policy", output) == [2]
