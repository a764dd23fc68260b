"""Recaptioning and both arms of pretraining, killed in stages of their own and resumed, end as an unbroken run."""

import pytest
from kills import differing, products, run_with_kills, saved, there
from laptop_recipes import SMALL as RECIPES
from tiny_run import Run, settings

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

SMALL = RECIPES["recaption-pretrain-laptop"]
KILLS = {
    "recaption": [("stage", there("recaption/captions/part-00001.parquet"))],
    "pretrain_vlm": [("stage", saved("pretrain_vlm/checkpoint-2"))],
}
STAGES = ["prepare", *KILLS, "align_projector", "tune_vlm", "pretrain_baseline", "tune_baseline", "score"]


def test_killed_in_recaptioning_and_pretraining_it_ends_as_if_it_had_never_stopped(tmp_path):
    Run(tmp_path / "unbroken", "recaption-pretrain-laptop", *settings(SMALL), "--run", "whole").finish()
    whole = products(tmp_path / "unbroken" / "whole", STAGES)
    assert {"tune_vlm/model/model.safetensors", "tune_baseline/model/model.safetensors"} <= whole.keys()
    policy, baseline = (whole[f"{stage}/model/model.safetensors"] for stage in ("pretrain_vlm", "pretrain_baseline"))
    assert policy != baseline, "the arms were trained on different captions"

    folder = tmp_path / "runs" / "cut"
    output = run_with_kills(folder, ["recaption-pretrain-laptop", *settings(SMALL), "--run", "cut"], KILLS)
    assert differing(products(folder, STAGES), whole) == []
    assert "pretraining continues after step 2" in output
    assert "right answers after pretraining" in output
