"""Promotion where there is a champion: by what both scored on the same samples, and not if it moved meanwhile."""

import json
import random
from collections.abc import Iterable
from pathlib import Path
from statistics import mean

import pytest
from pydantic import SecretStr
from served_api import TOKEN, Caller, ask, bearer, served
from synthetic_run import write_table

from rubricworks.data.alarm import Alarm
from rubricworks.data.tables import count_rows
from rubricworks.errors import TransientError, UserError
from rubricworks.evaluation.audit.summary import AuditSummary, Cell, Share
from rubricworks.evaluation.scoreboard import summarise_scores
from rubricworks.platform_api.settings import ApiSettings
from rubricworks.runtime.launch import launch
from rubricworks.tracking import Gate, TrackingConfig, connect, registry
from rubricworks.tracking.artifacts import fetch_artifacts
from rubricworks.tracking.sample_scores import read_sample_scores
from rubricworks.training.model_card import CARD

pytest.importorskip("mlflow")

GATE = {"win_rate_low_above": 0.5, "oracle_f1_gain_at_least": 0.0}
SAMPLES = 60


@pytest.fixture(autouse=True)
def _no_server(monkeypatch):
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID"):
        monkeypatch.delenv(name, raising=False)


def score_rows(policy: float, wins: float, *, ids: str = "s", seed: int = 0, judge: str = "judge") -> list[dict]:
    """Scores of a base and a policy on samples of very different difficulty, and the policy's wins over the base."""
    draw, rows = random.Random(seed), []
    for number in range(SAMPLES):
        difficulty = (number * 37 % SAMPLES) / SAMPLES / 2
        scored = {"base": 0.3 + difficulty, "policy": policy + difficulty + draw.uniform(-0.02, 0.02)}
        for model, f1 in scored.items():
            common = {
                "sample_id": f"{ids}{number}", "model": model, "revision": f"{model}-1", "step": None,
                "decoding": "greedy", "version": "1", "reason": None, "evidence": None,
            }  # fmt: skip
            rows.append({**common, "scorer": "oracle", "part": "f1", "judge": "", "value": f1, "against": None})
            if model == "policy":
                win = float(number < wins * SAMPLES)
                rows.append(
                    {**common, "scorer": "arena", "part": "win", "judge": judge, "value": win, "against": "base"}
                )
    return rows


def promote(
    home: Path,
    name: str,
    rows: list[dict],
    *,
    adapter: dict[str, str] | None = None,
    alarm: dict | None = None,
    audit: AuditSummary | None = None,
    **settings,
) -> dict:
    """The promote stage of a run with these scores, its training's alarm and its judge's audit."""
    inputs = {stage: home / name / stage for stage in ("scores", "policy", "samples")}
    write_table(inputs["scores"], "scores", rows)
    (inputs["scores"] / "scores.json").write_text(summarise_scores(rows).model_dump_json())
    (inputs["policy"] / "model").mkdir(parents=True)
    (inputs["policy"] / "model" / "config.json").write_text(json.dumps({"weights": name}))
    (inputs["policy"] / "alarm.json").write_text(json.dumps(alarm))
    if adapter:
        (inputs["policy"] / "adapter").mkdir()
        (inputs["policy"] / "adapter" / "base.json").write_text(json.dumps(adapter))
        (inputs["policy"] / "adapter" / "pytorch_lora_weights.safetensors").write_bytes(b"weights")
    inputs["samples"].mkdir()
    if audit:
        inputs["audit"] = home / name / "audit"
        inputs["audit"].mkdir()
        (inputs["audit"] / "audit.json").write_text(audit.model_dump_json())
    for folder in inputs.values():
        (folder / "done.json").write_text(json.dumps({"digest": f"{folder}"}))
    return launch_promote(home, name, inputs, **settings)


def launch_promote(home: Path, name: str, inputs: Iterable[str] = ("scores", "policy", "samples"), **settings) -> dict:
    """The stage of a run whose inputs are there."""
    config = json.dumps({"model_name": "captioner", "gate": GATE, **settings})
    out = launch("promote", config, str(home / "runs" / name), {stage: str(home / name / stage) for stage in inputs})
    return json.loads((Path(out) / "promotion.json").read_text())


def registered(home: Path):
    connection = connect(TrackingConfig(), home / "runs")
    assert connection is not None
    return connection


def champion(home: Path) -> int | None:
    version = registry.champion(registered(home), "captioner")
    return version and version.version


@pytest.mark.slow
def test_a_better_policy_takes_the_place_and_the_champion_becomes_previous(tmp_path):
    assert promote(tmp_path, "one", score_rows(0.5, 0.75))["promoted"]
    content = promote(tmp_path, "two", score_rows(0.6, 0.95, seed=1))
    assert content["promoted"], content
    assert content["reasons"][2:] == [
        "over the champion, version 1: win rate, low end: " + content["reasons"][2].split("low end: ")[1],
        "over the champion, version 1: oracle f1, gain over the base, low end: "
        + content["reasons"][3].split("low end: ")[1],
    ]
    assert champion(tmp_path) == 2
    assert registry.previous(registered(tmp_path), "captioner").version == 1


@pytest.mark.slow
def test_a_gate_without_alarms_refuses_a_policy_whose_training_had_one(tmp_path):
    alarm = {"step": 56, "reasons": ["saturation went from 16% to 44%", "while reward rose from 0.78 to 0.89"]}
    gate = {**GATE, "no_alarm": True}
    refused = promote(tmp_path, "one", score_rows(0.5, 0.75), alarm=alarm, gate=gate)
    assert not refused["passed"]
    assert refused["reasons"][-1] == (
        "alarm of reward hacking: fired at step 56: saturation went from 16% to 44%; "
        "while reward rose from 0.78 to 0.89; must have watched in silence"
    )
    passed = promote(tmp_path, "two", score_rows(0.5, 0.75), alarm={"state": "silent"}, gate=gate)
    assert (passed["promoted"], passed["reasons"][-1]) == (True, "alarm of reward hacking: has not fired")
    assert promote(tmp_path, "three", score_rows(0.6, 0.95, seed=1), alarm=alarm)["promoted"]  # off by default


def test_a_gate_without_alarms_refuses_a_training_that_nothing_watched():
    measured = {"win_rate": {"low": 0.6, "samples": 60}}
    result = Gate(no_alarm=True).check(measured)
    assert not result.passed
    assert result.reasons[-1] == "alarm of reward hacking: did not watch; must have watched in silence"
    assert Gate().check(measured).passed


@pytest.mark.parametrize(
    ("state", "passes", "note"),
    [
        ("too_short", False, "too short to tell; must have watched in silence"),
        ("silent", True, "has not fired"),
        ("no_reward", True, "no reward to game"),
    ],
)
def test_a_gate_without_alarms_passes_silence_and_not_what_is_too_short_to_tell(state, passes, note):
    gate = Gate(win_rate_low_above=None, no_alarm=True)
    result = gate.check({}, alarm=Alarm(state=state))
    assert (result.passed, result.reasons) == (passes, (f"alarm of reward hacking: {note}",))


def test_a_damaged_alarm_is_named_and_never_read_as_silence(tmp_path):
    with pytest.raises(UserError, match=r"alarm\.json: .*step: .*; run the stage policy again"):
        promote(tmp_path, "one", score_rows(0.5, 0.75), alarm={"reasons": ["no step"]}, gate={**GATE, "no_alarm": True})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rates", "passes", "reason"),
    [
        ((0.05, 0.08), True, "false positives of the judge, high end: 0.080, is at most 0.1"),
        ((0.05, 0.12), False, "false positives of the judge, high end: 0.120, must be at most 0.1"),
        ((0.05, None), False, "false positives of the judge, high end: not measured, must be at most 0.1"),
        (None, False, "false positives of the judge, high end: not measured, must be at most 0.1"),
    ],
)
def test_a_gate_holds_the_worst_failure_mode_of_the_judge_s_audit(tmp_path, rates, passes, reason):
    def cell(value, high):
        low = None if high is None else 0.0
        share = Share(value=value, low=low, high=high, count=1, criteria=80, inputs=60)
        return Cell(average=share, arguments=None, credit=None, unjudged=0)

    audit = None
    if rates:
        # The regular responses' cell holds agreement, and a judge that is shown targets is not the training's.
        cells = {"regular": cell(0.9, 0.95), "irrelevant": cell(0.0, 0.05), "adversarial": cell(*rates)}
        audit = AuditSummary(
            judge="j", settings={"targets": {"adversarial": cell(0.5, 0.6)}, "text": cells}, responses={}, attacks={}
        )
    gate = {**GATE, "audit_false_positives_at_most": 0.1}
    content = promote(tmp_path, "one", score_rows(0.5, 0.75), audit=audit, gate=gate)
    assert (content["passed"], content["reasons"][-1]) == (passes, reason)


@pytest.mark.slow
def test_rules_on_training_and_judge_do_not_ask_the_champion(tmp_path):
    gate = {**GATE, "no_alarm": True, "forgetting_at_most": None}
    silent = {"state": "silent"}
    promote(tmp_path, "one", score_rows(0.5, 0.75), alarm=silent, gate=gate)
    content = promote(tmp_path, "two", score_rows(0.6, 0.95, seed=1), alarm=silent, gate=gate)
    assert content["promoted"]
    assert sum("alarm" in reason for reason in content["reasons"]) == 1


def test_adapter_is_registered_with_the_digest_of_its_base(tmp_path):
    content = promote(tmp_path, "one", score_rows(0.5, 0.75), adapter={"model": "FLUX.1-dev", "sha256": "cd34"})
    assert content["promoted"]
    version = registry.champion(registered(tmp_path), "captioner")
    assert {name: version.tags[name] for name in ("base_model", "base_digest")} == {
        "base_model": "FLUX.1-dev",
        "base_digest": "cd34",
    }
    files = registry.model_files(fetch_artifacts(registered(tmp_path), version.source, tmp_path / "got", "the model"))
    assert {path.name for path in files.iterdir()} == {"base.json", "pytorch_lora_weights.safetensors"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("f1", "wins", "reason"),
    [
        (0.5, 0.75, "over the champion, version 1: win rate, low end: 0.500, must be above 0.5"),
        (0.45, 0.95, "over the champion, version 1: oracle f1, gain over the base, low end: -0."),
    ],
)
def test_a_policy_that_beats_its_base_but_not_the_champion_is_not_promoted(tmp_path, f1, wins, reason):
    promote(tmp_path, "one", score_rows(0.5, 0.75))
    content = promote(tmp_path, "two", score_rows(f1, wins, seed=1))
    assert (content["passed"], content["promoted"], content["version"]) == (False, False, "2")
    assert any(text.startswith(reason) for text in content["reasons"]), content["reasons"]
    assert all("over the champion" in text or "is a" in text for text in content["reasons"])
    assert champion(tmp_path) == 1
    assert registry.challenger(registered(tmp_path), "captioner") is None
    tags = registry.get_version(registered(tmp_path), "captioner", 2).tags
    assert reason in tags["gate"]


@pytest.mark.slow
@pytest.mark.parametrize("other", [{"ids": "t"}, {"judge": "another"}], ids=["other samples", "another judge"])
def test_what_was_not_scored_alike_waits_for_a_person(tell, tmp_path, other):
    promote(tmp_path, "one", score_rows(0.5, 0.75))
    content = promote(tmp_path, "two", score_rows(0.9, 1.0, **other))
    assert (content["passed"], content["promoted"]) == (False, False)
    assert content["reasons"][-1].startswith("over the champion, version 1: not measured, no samples were scored alike")
    assert champion(tmp_path) == 1
    told = tell("promote", "captioner", "--runs", tmp_path / "runs")
    assert (told.code, told.out) == (0, "captioner version 2 is the champion\n")
    assert tell("promote", "--runs", tmp_path / "runs").out == "captioner: champion version 2, previously version 1\n"


@pytest.mark.slow
def test_a_champion_that_moved_during_the_decision_is_not_replaced(tmp_path, monkeypatch):
    promote(tmp_path, "one", score_rows(0.5, 0.75))

    def compare_while_another_is_promoted(*arguments):
        connection = registered(tmp_path)
        registry.promote(connection, "captioner", 2, expected=1)
        return check(*arguments)

    from rubricworks.stages.release import promote as stage

    check = stage.check_over_champion
    promote(tmp_path, "weak", score_rows(0.5, 0.75, seed=2))  # version 2, whose promotion a person forces meanwhile
    monkeypatch.setattr(stage, "check_over_champion", compare_while_another_is_promoted)
    content = promote(tmp_path, "two", score_rows(0.6, 0.95, seed=1))
    assert (content["passed"], content["promoted"]) == (False, False)
    assert content["reasons"][-1] == (
        "captioner version 3 is not promoted: version 2 is the champion now, and it was version 1 when this was decided"
    )
    assert champion(tmp_path) == 2


@pytest.mark.slow
def test_the_stage_run_again_leaves_its_champion_and_the_previous_one(tmp_path):
    promote(tmp_path, "one", score_rows(0.5, 0.75))
    rows = score_rows(0.6, 0.95, seed=1)
    first = promote(tmp_path, "two", rows)
    out = tmp_path / "runs" / "two" / "promote"
    (out / "done.json").unlink()
    inputs = {name: str(tmp_path / "two" / name) for name in ("scores", "policy", "samples")}
    launch("promote", json.dumps({"model_name": "captioner", "gate": GATE}), str(tmp_path / "runs" / "two"), inputs)
    again = json.loads((out / "promotion.json").read_text())
    assert (first["promoted"], again["promoted"], again["version"]) == (True, True, "2")
    assert registry.previous(registered(tmp_path), "captioner").version == 1


def test_the_registry_keeps_what_the_policy_scored_on_each_sample(tmp_path):
    rows = score_rows(0.5, 0.75)
    promote(tmp_path, "one", rows)
    scores = read_sample_scores(registered(tmp_path), registry.champion(registered(tmp_path), "captioner"))
    assert {json.loads(key)[0] for key in scores} == {"oracle_f1", "arena_win"}
    values = next(values for key, values in scores.items() if "oracle_f1" in key)
    expected = [row["value"] for row in rows if row["model"] == "policy" and row["scorer"] == "oracle"]
    assert mean(values.values()) == pytest.approx(mean(expected))
    assert len(values) == SAMPLES == count_rows(tmp_path / "one" / "scores") // 3


def test_the_card_of_a_registered_model_has_the_figures_that_its_gate_read(tmp_path):
    content = promote(tmp_path, "one", score_rows(0.5, 0.75))
    connection = registered(tmp_path)
    version = registry.champion(connection, "captioner")
    folder = fetch_artifacts(connection, version.source, tmp_path / "fetched", "the model")
    shown = connection.client.get_model_version("captioner", str(version.version)).description
    for text in ((folder / CARD).read_text(), shown):
        assert "| win_rate | value | 0.75 |" in text
        assert "| oracle_f1 | base |" in text
        assert [line[2:] for line in text.splitlines() if line.startswith("- ")] == content["reasons"]
    # The model's own folder stays as it was trained.
    assert sorted(path.name for path in registry.model_files(folder).iterdir()) == ["config.json"]


@pytest.mark.slow
def test_where_an_installation_is_named_the_stage_requests_and_moves_nothing(tmp_path, monkeypatch):
    (tmp_path / "runs").mkdir()
    with served(ApiSettings(storage=str(tmp_path / "runs"), index_seconds=60)) as url:
        monkeypatch.setenv("RUBRICWORKS_API", url)
        content = promote(tmp_path, "one", score_rows(0.5, 0.75))
        assert (content["passed"], content["promoted"]) == (True, False)
        assert f"promotion 1 of captioner version 1 waits for approval at {url}" in content["reasons"][-1]
        assert champion(tmp_path) is None
        (request,) = ask(f"{url}/api/v1/promotions")[1]["items"]
        assert (request["state"], request["version"], request["reason"]) == ("requested", 1, "run one")


@pytest.mark.slow
def test_run_of_a_deleted_project_fails_in_a_line_and_goes_on_once_it_is_back(tmp_path, monkeypatch):
    monkeypatch.setattr("rubricworks.tracking.installation._PAUSE", 0.01)
    (tmp_path / "runs").mkdir()
    project = ApiSettings(storage=str(tmp_path / "runs"), index_seconds=60, token=SecretStr(TOKEN))
    with served(project) as url:
        monkeypatch.setenv("RUBRICWORKS_API_TOKEN", Caller(url).secret("runner-of-runs"))
    monkeypatch.setenv("RUBRICWORKS_API", url)
    with pytest.raises(TransientError) as gone:
        promote(tmp_path, "one", score_rows(0.5, 0.75))
    assert str(gone.value) == f"the API at {url} does not answer (Connection refused)"
    # Made anew with another database: the run's token is none of its own.
    other = project.model_copy(update={"database": SecretStr(f"sqlite+aiosqlite:///{tmp_path}/other.db")})
    with served(other) as url:
        monkeypatch.setenv("RUBRICWORKS_API", url)
        with pytest.raises(UserError) as refused:
            launch_promote(tmp_path, "one")
        assert str(refused.value).startswith(f"{url}: the token is missing, unknown or expired")
        assert "\n" not in str(refused.value)
        assert ask(f"{url}/api/v1/promotions", **bearer())[1]["items"] == []
    assert registry.model_names(registered(tmp_path)) == [], "nothing is half done"
    with served(project) as url:
        monkeypatch.setenv("RUBRICWORKS_API", url)
        assert launch_promote(tmp_path, "one")["passed"]
        (request,) = ask(f"{url}/api/v1/promotions", **bearer())[1]["items"]
        assert (request["state"], request["version"], request["requested_by"]) == ("requested", 1, "runner-of-runs")


def test_without_a_token_the_stage_fails_in_words_and_registers_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("RUBRICWORKS_API", "http://rubricworks-api.team.svc:80")
    monkeypatch.delenv("RUBRICWORKS_API_TOKEN", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(UserError, match=r"team\.svc.* there is no token .* nothing is registered or moved"):
        promote(tmp_path, "one", score_rows(0.5, 0.75))
    assert registry.model_names(registered(tmp_path)) == []
