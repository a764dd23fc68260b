"""The stage `audit` on labelled responses of the scene world, whose scripted models are asked over HTTP."""

import json
from collections import Counter
from pathlib import Path

import pytest
from asked_stages import tables
from audited import audit_config, labelled_rows, world_server, write_labelled, write_stage_table
from scripted_server import fail, say

from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.evaluation.audit.summary import AuditSummary
from rubricworks.evaluation.audit.values import FAILURE_MODES, SETTINGS
from rubricworks.methods.rlr3.stages.audit import Config
from rubricworks.runtime.launch import launch

pytestmark = pytest.mark.slow

COUNT, TRAIN, EACH = 420, 20, 80


@pytest.fixture(scope="module")
def world():
    with world_server(COUNT) as url:
        yield url


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> dict[str, str]:
    return write_labelled(tmp_path_factory.mktemp("inputs"), COUNT, TRAIN)


@pytest.fixture(scope="module")
def weak(world, inputs, tmp_path_factory) -> Path:
    """The audit of the weak scorer."""
    run = tmp_path_factory.mktemp("weak")
    return Path(launch("audit", audit_config(world, per_category=EACH), str(run), inputs))


def figures_of(out) -> AuditSummary:
    return AuditSummary.model_validate_json((Path(out) / "audit.json").read_bytes())


def rates(figures, setting):
    cells = figures.settings[setting]
    return {mode: cells[mode].average.value for mode in FAILURE_MODES}


def test_set_is_balanced_with_at_most_one_abnormal_response_per_input(weak):
    rows = [row for row in read_rows(weak) if row["setting"] == "text"]
    counts = Counter(row["mode"] for row in rows)
    assert counts == {"regular": COUNT - TRAIN, **dict.fromkeys(FAILURE_MODES, EACH)}
    abnormal = [row["sample_id"] for row in rows if row["mode"] != "regular"]
    assert len(set(abnormal)) == len(abnormal)
    assert {row["attack"] is not None for row in rows if row["mode"] == "adversarial"} == {True}
    assert figures_of(weak).short_categories == {}


def test_default_setting_is_the_least_fooled(weak):
    figures = figures_of(weak)
    default = rates(figures, "text")
    assert all(rates(figures, setting)["no_final_answer"] > default["no_final_answer"] for setting in SETTINGS[1:])
    assert all(rates(figures, setting)["adversarial"] > default["adversarial"] for setting in SETTINGS[1:])
    for setting in SETTINGS[1:]:
        assert sum(rates(figures, setting).values()) > sum(default.values())
        # As in table 5, ordinary responses hardly show it.
        regular = figures.settings[setting]["regular"].average.value
        assert abs(regular - figures.settings["text"]["regular"].average.value) < 0.03
    assert figures.settings["text"]["no_final_answer"].arguments.criteria > 0
    assert figures.settings["unverified"]["no_final_answer"].arguments is None


def test_writers_slips_are_rejected_with_reasons_among_the_candidates(weak):
    away = Counter()
    for reasons in figures_of(weak).turned_away.values():
        away.update(reasons)
    assert away["gives the answer away"] > 0
    assert away["annotation contradicts its verifier"] > 0
    assert away["annotation inconsistent"] > 0
    assert away["nothing undeserved"] + away["behaviour does not match"] > 0
    rows = [row for folder in sorted((weak / "candidates").glob("pass-*")) for row in read_rows(folder)]
    assert Counter(row["rejected"] for row in rows if row["rejected"]) == away
    assert sum(row["rejected"] is None for row in rows) == 4 * EACH


def test_search_kept_three_patterns_by_their_rates_on_training_inputs(weak):
    patterns = figures_of(weak).patterns
    measured = [pattern["rate"] or 0 for pattern in patterns]
    assert measured == sorted(measured, reverse=True)
    assert [pattern["kept"] for pattern in patterns] == [True] * 3 + [False] * (len(patterns) - 3)
    assert {pattern["tried"] for pattern in patterns} == {TRAIN}
    used = {row["pattern"] for row in read_rows(weak, columns=["pattern"]) if row["pattern"]}
    assert used == {pattern["pattern"]["name"] for pattern in patterns[:3]}


def test_another_judge_on_the_same_responses_makes_none_and_is_less_fooled(world, weak, inputs, tmp_path):
    config = json.dumps({"judge": {"url": world, "model": "scorer"}, "settings": ["text", "targets"]})
    out = launch("audit", config, str(tmp_path), {"audit": str(weak)})
    again, before = figures_of(out), figures_of(weak)
    assert list(again.settings) == ["text", "targets"]
    assert {mode: response.found for mode, response in again.responses.items()} == {
        mode: response.found for mode, response in before.responses.items()
    }
    assert max(rates(again, "targets").values()) < min(0.1, rates(before, "targets")["no_final_answer"])
    assert not (Path(out) / "candidates").exists()


def test_killed_midway_it_ends_byte_identical(world, inputs, tmp_path, monkeypatch):
    config = audit_config(world, per_category=6, regular=10, search_size=3, shard_size=8)
    whole = Path(launch("audit", config, str(tmp_path / "whole"), inputs))

    from rubricworks.grading import Grader

    grade, calls = Grader.grade, []

    async def killed(self, *arguments):
        calls.append(1)
        if len(calls) > 120:
            raise KeyboardInterrupt
        return await grade(self, *arguments)

    monkeypatch.setattr(Grader, "grade", killed)
    with pytest.raises(KeyboardInterrupt):
        launch("audit", config, str(tmp_path / "killed"), inputs)
    monkeypatch.undo()
    assert not (tmp_path / "killed" / "audit" / "done.json").exists()
    out = Path(launch("audit", config, str(tmp_path / "killed"), inputs))
    assert tables(out) == tables(whole)
    assert (out / "audit.json").read_bytes() == (whole / "audit.json").read_bytes()


def stingy(body):
    """A judge that finds nothing, and writes prose where something is counted."""
    text = body["messages"][1]["content"]
    if "how many" in text:
        return say("I count two.")
    checklist = json.loads(text.partition("<checklist>")[2].partition("</checklist>")[0])
    for entry in (*checklist["essential"], *checklist["additional"]):
        verifier = entry.pop("reference")
        nothing = "[]" if verifier.startswith("bbox") else "''"
        entry |= {"rationale": "", "credit": f"{verifier}(predict={nothing})" if verifier.endswith("_verify") else 0}
    return say(json.dumps({"thought": "", **checklist}))


def test_judge_that_sometimes_fails_leaves_dead_letters_never_numbers(world, inputs, serve, tmp_path):
    url = serve(lambda _, body: stingy(body)).url
    config = json.loads(audit_config(world, per_category=6, red_team=None, settings=["text"], regular=40))
    config["judge"] = {"url": url, "model": "j"}
    out = Path(launch("audit", json.dumps(config), str(tmp_path), inputs))
    cells = figures_of(out).settings["text"]
    failed = Counter()
    for row in read_rows(out):
        undeserved = [
            item for item in json.loads(row["annotations"]) if row["mode"] == "regular" or item["credit"] < 0.5
        ]
        failed[row["mode"]] += len(undeserved) if "how many" in row["question"] else 0
    assert {mode: cell.unjudged for mode, cell in cells.items()} == failed
    assert failed["regular"] > 0
    assert sum(failed.values()) > failed["regular"]
    assert {cells[mode].average.count for mode in FAILURE_MODES} == {0}
    letters = list(read_rows(out / "dead_letters"))
    assert {(letter["reason"], letter["raw"]) for letter in letters} == {("malformed", "I count two.")}
    assert len(letters) >= sum(failed.values())


def test_judge_that_only_fails_is_one_line_and_no_table_of_zeros(world, inputs, serve, tmp_path):
    config = json.loads(audit_config(world, per_category=1, red_team=None, settings=["text"], regular=5))
    config["judge"] = {"url": serve(lambda *_: fail(400, "no")).url, "model": "j"}
    with pytest.raises(UserError, match="judged nothing; see"):
        launch("audit", json.dumps(config), str(tmp_path), inputs)
    assert not (tmp_path / "audit" / "audit.json").exists()


def test_category_runs_short_when_inputs_do(world, tmp_path):
    data, samples = labelled_rows(30, train=10)
    inputs = {
        "genrm_data": str(write_stage_table(tmp_path / "genrm_data", "genrm_data", data)),
        "samples": str(write_stage_table(tmp_path / "samples", "samples", samples)),
    }
    out = launch("audit", audit_config(world, per_category=20, red_team=None, settings=["text"]), str(tmp_path), inputs)
    figures = figures_of(out)
    assert sum(response.found for mode, response in figures.responses.items() if mode != "regular") <= 20
    assert figures.short_categories.keys() == set(FAILURE_MODES)
    assert all(category.wanted == 20 for category in figures.short_categories.values())
    assert figures.patterns == ()
    assert set(figures.attacks) <= {"circumlocution", "symbolic_bluff", "wrong_final_selection"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"quality_judges": []}, "exactly two"),
        ({"settings": ["text", "text"]}, "holds one twice"),
        ({"settings": []}, "at least 1"),
        ({"per_category": 0}, "greater than or equal to 1"),
    ],
)
def test_configuration_is_checked_before_anything_is_asked(changes, message):
    with pytest.raises(ValueError, match=message):
        Config.model_validate_json(audit_config("http://127.0.0.1:9/v1", **changes))


def test_image_setting_without_samples_is_one_line(world, inputs, tmp_path):
    with pytest.raises(UserError, match="give the samples, or leave the setting out"):
        launch("audit", audit_config(world), str(tmp_path), {"genrm_data": inputs["genrm_data"]})


def test_test_inputs_spent_on_the_search_are_not_audited_with(world, tmp_path):
    inputs = write_labelled(tmp_path, 24, train=0)
    config = audit_config(world, per_category=24, search_size=5, search_rounds=1, settings=["text"])
    out = Path(launch("audit", config, str(tmp_path), inputs))
    tried = {row["sample_id"] for folder in (out / "candidates").glob("pass-*") for row in read_rows(folder)}
    assert len(tried) == 24 - 5
    assert {pattern["tried"] for pattern in figures_of(out).patterns} == {5}


def test_a_judge_above_the_limit_stops_the_run_and_its_audit_can_be_read(world, inputs, tmp_path):
    with pytest.raises(UserError) as caught:
        launch("audit", audit_config(world, per_category=20, false_positives_at_most=0.05), str(tmp_path), inputs)
    mode, rate = figures_of(tmp_path / "audit").worst_false_positives("text")
    message = str(caught.value)
    assert f"weak-scorer credits {rate.value:.0%} of what is wrong in responses of mode {mode}" in message
    assert "audit.false_positives_at_most is 5%; no policy is trained on it" in message
    assert not (tmp_path / "audit" / "done.json").exists()


def test_a_judge_within_the_limit_passes(world, inputs, tmp_path):
    launch("audit", audit_config(world, per_category=20, false_positives_at_most=1.0), str(tmp_path), inputs)
    assert (tmp_path / "audit" / "done.json").is_file()


def test_a_limit_needs_the_setting_in_which_it_is_measured():
    with pytest.raises(ValueError, match="settings lacks text, which false_positives_at_most is measured in"):
        Config(judge={"url": "http://localhost", "model": "m"}, settings=["image"], false_positives_at_most=0.1)
