"""Advantages against those of TRL and the authors' GDPO code; tests/rl/test_group_advantages.py reads the file too."""

import json
from pathlib import Path

import pytest
import torch

from rubricworks.rl import decoupled_advantages

CASES = json.loads((Path(__file__).parent / "data" / "d_advantages.json").read_text())["cases"]
CODES = ("trl_normalize_then_sum_gdpo", "nvlabs_gdpo_trl018")
PAIRS = [(case, code) for case in CASES for code in CODES if code in case["expected"]]


@pytest.mark.parametrize(("case", "code"), PAIRS, ids=[f"{case['name']}-{code}" for case, code in PAIRS])
def test_decoupled_advantages(case, code):
    advantages = decoupled_advantages(
        torch.tensor(case["rewards"]), torch.tensor(case["weights"], dtype=torch.float32), case["group_size"]
    )
    torch.testing.assert_close(advantages, torch.tensor(case["expected"][code]), atol=2e-5, rtol=1e-4)
