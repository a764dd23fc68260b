"""RubricRL: killed in its trainings and resumed, each kind of generator ends in the same weights."""

import pytest
from kills import continued_after, differing, products, run_with_kills, saved
from laptop_recipes import SMALL
from tiny_run import Run, settings

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

KILLS = {
    "pretrain_generator": [("stage", saved("pretrain_generator/checkpoint-2"))],
    "train_generator": [("everything", saved("train_generator/checkpoint-2"))],
}
MADE = ["prepare_prompts", "write_prompt_rubrics", *KILLS, "score"]


@pytest.mark.parametrize(
    ("recipe", "weights"),
    [
        ("rubricrl-ar-laptop", "model/model.safetensors"),
        ("rubricrl-diffusion-laptop", "model/transformer/diffusion_pytorch_model.safetensors"),
    ],
)
def test_killed_in_its_trainings_and_resumed_it_ends_as_if_it_had_never_stopped(tmp_path, recipe, weights):
    Run(tmp_path / "whole", recipe, *settings(SMALL[recipe]), "--run", "whole").finish()
    expected = products(tmp_path / "whole" / "whole", MADE)
    assert {f"{stage}/{weights}" for stage in KILLS} <= expected.keys()
    assert {
        "train_generator/rollouts/part-00002.parquet",
        "train_generator/scorecards/part-00002.parquet",
    } <= expected.keys()
    folder = tmp_path / "killed" / "cut"
    output = run_with_kills(folder, [recipe, *settings(SMALL[recipe]), "--run", "cut"], KILLS)
    assert differing(products(folder, MADE), expected) == []
    assert continued_after("pretraining", output) == [2]
    assert continued_after("policy", output) == [2]
