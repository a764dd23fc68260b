"""Promotion after captions were scored by several views: what the gate reads, and what the registry keeps of it."""

import json
from pathlib import Path

import pytest
from caption_summaries import summary

from rubricworks.runtime.launch import launch
from rubricworks.stages.release.promote import gate_figures
from rubricworks.tracking import Gate, TrackingConfig, connect, registry


@pytest.mark.parametrize(
    ("gain", "win", "passed"),
    [
        ((0.2, 0.01, 0.3), (0.7, 0.55, 0.8), True),
        ((0.2, -0.01, 0.3), (0.7, 0.55, 0.8), False),
        ((0.2, 0.01, 0.3), (0.7, 0.45, 0.8), False),
        (None, (0.7, 0.55, 0.8), False),
        ((0.2, 0.01, 0.3), None, False),
    ],
)
def test_both_intervals_must_exceed_their_bounds_and_unmeasured_fails(gain, win, passed):
    result = Gate(b_capscore_gain_low_above=0.0).check(gate_figures(summary(gain, win)))
    assert result.passed is passed
    assert [reason.split(":")[0] for reason in result.reasons] == ["win rate, low end", "b-CapScore gain, low end"]


@pytest.mark.slow
def test_a_policy_that_passes_is_registered_with_its_figures_and_becomes_champion(tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    inputs = {name: str(tmp_path / name) for name in ("scores", "policy", "samples")}
    for name, folder in inputs.items():
        Path(folder).mkdir()
        (Path(folder) / "done.json").write_text(json.dumps({"digest": f"digest of {name}"}))
    passed = summary((0.2, 0.1, 0.3), (0.7, 0.6, 0.8))
    (tmp_path / "scores" / "scores.json").write_text(passed.model_dump_json())
    (tmp_path / "policy" / "model").mkdir()
    (tmp_path / "policy" / "model" / "config.json").write_text("{}")
    config = {"model_name": "captioner", "gate": {"b_capscore_gain_low_above": 0.05}}
    out = Path(launch("promote", json.dumps(config), str(tmp_path / "runs" / "one"), inputs))

    content = json.loads((out / "promotion.json").read_text())
    assert (content["passed"], content["promoted"], content["version"]) == (True, True, "1")
    connection = connect(TrackingConfig(), tmp_path / "runs")
    assert connection is not None
    champion = registry.champion(connection, "captioner")
    assert champion is not None
    gates = {"win_rate.low": "0.6", "b_capscore_gain.value": "0.2", "b_capscore.policy": "0.6", "dc_score.base": "0.5"}
    assert champion.tags.items() >= {**gates, "data_digest": "digest of samples"}.items()
