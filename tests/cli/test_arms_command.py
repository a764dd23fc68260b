"""`rubricworks arms`, with a stub in the place of `rubricworks run`."""

import json
import sys
from pathlib import Path

import pytest
from claimed_captions import BASE, write_captions, write_seed

from rubricworks.claims import child_runs as engine
from rubricworks.claims.arm_table import ArmTable, arm_form
from rubricworks.recipe.files import load_recipe, recipe_path

STUB = (sys.executable, str(Path(__file__).parents[1] / "claims" / "arm_stub.py"))
LAPTOP = "balcaprl-laptop"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "COMMAND", STUB)
    return tmp_path / "runs" / f"arms-{LAPTOP}"


def calls(place):
    path = place / "calls.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


@pytest.mark.slow
def test_arms_are_run_as_a_user_would_after_the_run_that_they_take_from(tell, place):
    result = tell(
        "arms", LAPTOP, "--arm", "no_recall", "--arm", "linear", "--seed", "3", "--set", "policy.algorithm.steps=4"
    )
    assert result.code == 0, result
    runs = calls(place)
    assert runs[0]["words"] == [
        *("run", LAPTOP, "--runs", str(place), "--run", "seed-3"),
        *("--set", "policy.algorithm.steps=4", "--set", "seed=3"),
    ]
    assert sorted((run["run"], run["words"][6:10], run["ready"]) for run in runs[1:]) == [
        ("seed-3-linear", ["--arm", "linear", "--reuse", "seed-3"], True),
        ("seed-3-no_recall", ["--arm", "no_recall", "--reuse", "seed-3"], True),
    ]
    assert "seed 3, linear: done in" in result.err
    table = ArmTable.model_validate_json((place / "seed-3-table.json").read_bytes())
    assert (table.seed, table.changed, table.simulated) == (3, ("policy.algorithm.steps: 120 → 4",), True)
    assert [row.arm for row in table.rows] == ["base", "own", "no_recall", "linear"]

    again = tell("arms", LAPTOP, "--arm", "no_recall", "--seed", "3", "--set", "policy.algorithm.steps=4")
    assert "seed 3; seed 3, no_recall: finished in an earlier call" in again.err
    assert len(calls(place)) == len(runs)


@pytest.mark.slow
def test_a_run_that_failed_goes_on_and_its_arms_wait_for_it(tell, place):
    place.mkdir(parents=True)
    (place / "behaviour.json").write_text('["seed-1"]')
    result = tell("arms", LAPTOP, "--arm", "linear")
    assert result.code == 2
    assert "seed 1 failed: no room on /" in result.err
    assert [call["run"] for call in calls(place)] == ["seed-1"]
    assert tell("arms", LAPTOP, "--arm", "linear").code == 0
    assert [call["run"] for call in calls(place)] == ["seed-1", "seed-1", "seed-1-linear"]
    assert calls(place)[1]["words"] == ["run", "--runs", str(place), "--resume", "seed-1"]
    assert calls(place)[2]["ready"]


@pytest.mark.slow
def test_the_table_has_the_papers_rows_and_each_figure_with_its_interval(tell, place):
    write_seed(place)
    result = tell("arms", LAPTOP, "--table", "components", "--only-report")
    assert result.code == 0, result
    assert max(map(len, result.out.splitlines()[:-1])) <= 100
    lines = result.out.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("w/o linguistic"))
    # DCScore, CaptionQA, Arena, length; the rest was not measured, but b-CapScore and oracle F1.
    assert lines[at].split()[2:] == ["53.0", "58.0", "30.0", "60.0", "–", "–", "–", "44.0", "71.0"]  # noqa: RUF001
    assert lines[at + 1].split()[:2] == ["48–58", "52–64"]  # noqa: RUF001
    page = (place / "seed-1-table-components.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith("| Base model"))
    assert [cell.strip() for cell in row.strip("|").split("|")][1:5] == [
        "40.0 (36.0–44.0)", "50.0 (45.0–55.0)", "50.0", "30.0 (27.0–33.0)",  # noqa: RUF001
    ]  # fmt: skip
    labels = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")][2:]
    assert labels == [
        *("Base model", "Full, equal weights", "w/o c-GDPO", "w/o precision", "w/o recall", "w/o linguistic"),
        *("w/o pointability", "w/o recap"),
    ]
    html = (place / "seed-1-table-components.html").read_text()
    assert html.index("Simulated.") < html.index("w/o c-GDPO")
    assert html.count('<tr id="') + html.count('<tr class="base"') == 8
    assert "<script" not in html


def test_tables_hold_the_rows_of_the_paper_that_a_recipe_has():
    laptop, paper = (load_recipe(recipe_path(name)).arms for name in (LAPTOP, "balcaprl"))
    form = arm_form("balcaprl")
    assert form.rows_of("length", laptop) == ["no_length", "linear", "full", "gate_0_3", "gate_05_1", "gate_05_3"]
    assert form.rows_of("length", paper)[-3:] == ["gate_05_4", "gate_05_5", "gate_05_6"]
    assert form.rows_of("weights", laptop) == ["no_precision", "own", "w_prec_02", "full", "w_prec_04"]
    assert form.rows_of("judges", laptop) == ["own", "judge_mini", "judge_strong"]
    assert form.rows_of("peers", laptop) == form.rows_of("peers", paper) == ["sft", "caprl", "rubicap", "own"]
    assert form.rows_of("peers", []) == ["own"]
    assert set(laptop) | set(paper) == form.labels.keys() - {"own"}
    assert form.label("warm_start") == "warm_start"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "choose with --table or --arm; balcaprl-laptop has full, no_cgdpo"),
        (["--arm", "no_recal"], "no arm 'no_recal'; did you mean no_recall?"),
        (["--arm", "linear", "--set", "policy.stepps=3"], "stepps"),
        (
            ["--arm", "linear", "--set", "policy.reward.length={type: gate}"],
            "the arm linear is about policy.reward.length",
        ),
        (["--arm", "linear", "--set", "seed=4"], "follows the seed of each run"),
        (["--arm", "linear", "--set", "policy.algorithm.steps=4", "--only-report"], "--only-report makes none"),
        (["--arm", "linear", "--only-report"], "seed-1: there is no run here"),
        (["--table", "everything"], "'everything' is not one of"),
    ],
)
def test_mistakes_are_told_before_anything_runs(tell, place, words, message):
    result = tell("arms", LAPTOP, *words)
    assert result.code == 2
    assert message in result.err
    assert not place.exists()


def test_recipe_without_arms_is_told_so(tell, place):
    assert "choose with --table or --arm; one-endpoint-laptop has no arms" in tell("arms", "one-endpoint-laptop").err
    assert "the pipeline rlr3 has no table length: none" in tell("arms", "rlr3-laptop", "--table", "length").err


@pytest.mark.slow
def test_a_recipe_of_rubicap_is_compared_with_its_baselines_by_default(tell, place):
    result = tell("arms", "rubicap-laptop")
    first, *arms = [call["words"] for call in calls(place.with_name("arms-rubicap-laptop"))]
    assert first[:6] == [
        "run",
        "rubicap-laptop",
        "--runs",
        str(place.with_name("arms-rubicap-laptop")),
        "--run",
        "seed-1",
    ]
    started = [words[words.index("--arm") + 1] for words in arms]
    assert started
    assert set(started) <= set(arm_form("rubicap").tables["baselines"].rows[: len(started)])
    assert result.code == 2  # the stand-in knows the arms of BalCapRL alone


@pytest.mark.slow
def test_arms_of_another_start_or_other_settings_are_not_compared(tell, place):
    write_captions(place / "seed-1")
    write_captions(place / "seed-1-linear", "linear", base=BASE | {"length_tokens": 31.0})
    result = tell("arms", LAPTOP, "--arm", "linear", "--only-report")
    assert "its base model does not answer as that of" in result.err
    write_captions(place / "seed-1-linear", "linear", settings=["policy.algorithm.steps=20"])
    result = tell("arms", LAPTOP, "--arm", "linear", "--only-report")
    assert "different settings (policy.algorithm.steps: 120 → 20)" in result.err
    write_captions(place / "seed-1-linear", "no_length")
    result = tell("arms", LAPTOP, "--arm", "linear", "--only-report")
    assert 'different settings (arm: "linear" → "no_length"' in result.err
