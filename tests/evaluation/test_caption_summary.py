"""Figures of scored captions against numbers by hand."""

import pytest

from rubricworks.evaluation.caption_summary import SCORES, summarise_captions
from rubricworks.metrics import bootstrap_interval


def row(sample: str, model: str, **columns: float | None) -> dict:
    return {"sample_id": sample, "model": model, **dict.fromkeys((*SCORES, "win")), "tokens": 10, **columns}


ROWS = [
    row("a", "base", b_capscore=0.1, dc_score=0.5, tokens=8),
    row("a", "policy", b_capscore=0.4, dc_score=None, tokens=12, win=1.0),
    row("b", "base", b_capscore=0.9, dc_score=0.25),
    row("b", "policy", b_capscore=None, dc_score=0.75, win=0.5),
    row("c", "base", b_capscore=None, dc_score=0.25),
    row("c", "policy", b_capscore=0.8, dc_score=0.5, win=None),
]


def test_means_leave_out_and_count_what_was_not_judged():
    models = summarise_captions(ROWS).models
    base, policy = models["base"], models["policy"]
    assert (base["b_capscore"].value, base["b_capscore"].samples, base["b_capscore"].missing) == (0.5, 2, 1)
    assert policy["b_capscore"].value == pytest.approx(0.6)
    assert (base["tokens"].value, policy["tokens"].value) == pytest.approx((28 / 3, 32 / 3))
    assert "caption_qa" not in base


def test_gain_is_of_the_samples_where_both_were_judged():
    gains = summarise_captions(ROWS).gains
    assert (gains["b_capscore"].value, gains["b_capscore"].samples) == (pytest.approx(0.3), 1)
    assert (gains["dc_score"].value, gains["dc_score"].missing) == (pytest.approx((0.5 + 0.25) / 2), 1)
    assert gains["tokens"].value == pytest.approx(4 / 3)
    # Unpaired, the gain of b-CapScore would be 0.6 - 0.5.
    assert "caption_qa" not in gains


def test_interval_of_a_gain_is_that_of_its_differences():
    differences = [0.1 + 0.01 * (n % 3) for n in range(40)]
    rows = [row(str(n), "base", dc_f1=0.01 * n) for n in range(40)]
    rows += [row(str(n), "policy", dc_f1=0.01 * n + more) for n, more in enumerate(differences)]
    gain = summarise_captions(rows).gains["dc_f1"]
    expected = bootstrap_interval(differences)
    assert (gain.value, gain.low, gain.high) == pytest.approx((expected.value, expected.low, expected.high))
    assert gain.high - gain.low < 0.01  # the samples differ by far more


def test_win_rate_and_metrics_by_name():
    summary = summarise_captions(ROWS)
    assert (summary.win_rate.value, summary.win_rate.missing) == (0.75, 1)
    metrics = summary.metrics()
    assert metrics["policy/b_capscore"] == pytest.approx(0.6)
    assert metrics["gain/b_capscore"] == pytest.approx(0.3)
    assert metrics["win_rate"] == 0.75
    assert not any("oracle" in name for name in metrics)


def test_summary_survives_json():
    summary = summarise_captions(ROWS)
    assert type(summary).model_validate_json(summary.model_dump_json()) == summary


@pytest.mark.parametrize("rows", [[], ROWS[:1], [row("a", "policy"), row("a", "policy"), row("a", "base")]])
def test_one_caption_of_each_model_is_needed(rows):
    with pytest.raises(ValueError, match=r"there must be some of base and of policy|two captions of sample a"):
        summarise_captions(rows)


def test_all_wins_leave_a_doubt_and_differences_that_are_all_0_leave_none():
    rows = [row(str(n), "base", caption_qa=1.0, tokens=1) for n in range(10)]
    rows += [row(str(n), "policy", caption_qa=1.0, tokens=1, win=1.0) for n in range(10)]
    summary = summarise_captions(rows)
    lower = pytest.approx(0.722467, abs=1e-6)  # Wilson's for 10 of 10: 10 / (10 + 1.959964²)
    assert (summary.win_rate.value, summary.win_rate.low, summary.win_rate.high) == (1, lower, 1)
    assert summary.models["policy"]["caption_qa"].low == lower
    assert (summary.gains["caption_qa"].low, summary.gains["caption_qa"].high) == (0, 0)
    tokens = summary.models["policy"]["tokens"]  # a length of 1 is no share
    assert (tokens.low, tokens.high) == (1, 1)
