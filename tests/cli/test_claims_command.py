"""`rubricworks claims`: the plan, stored results, refusals, and a small measurement that is killed and goes on."""

import csv
import json
import os
import signal
import subprocess
import sys

import pytest

from rubricworks.claims import registration as registrations
from rubricworks.claims.registration import OWN, load_registration
from rubricworks.claims.report import ClaimsReport
from rubricworks.claims.run_results import ResultFolder, RunResult
from rubricworks.claims.settings import settings_digest
from rubricworks.recipe.files import load_recipe, recipe_path

SMALL = """
paper: BalCapRL
recipe: balcaprl-laptop
settings:
  - world.scenes=96
  - data.held_out=16
  - data.warm_up=64
  - warm_up.sft.steps=4
  - policy.algorithm.steps=2
  - policy.algorithm.rollouts.group_size=2
  - policy.algorithm.rollouts.prompts_per_step=2
  - evaluation.decodings=[sampled]
seeds: 2
margin: 0.03
gates: [sampled]
claims:
  - {id: improves-dc, source: Table 1, says: improves, arms: [own, base], metric: dc_score}
  - {id: full-dc, source: Table 3, says: is better, arms: [full, own], metric: dc_score, gates: [cap]}
  - {id: programmed, source: Table 5, says: follows, arms: [own, base], metric: b_capscore, programmed: true}
"""


@pytest.fixture
def registered(tmp_path, monkeypatch):
    """The small registration in the place of BalCapRL's."""
    path = tmp_path / "claims.yaml"
    path.write_text(SMALL)
    monkeypatch.setattr(registrations, "registration_path", lambda method: path)
    return path


def store(folder, path, run, seed, shift=0.0, **readings):
    registration = load_registration(path)
    arm = None if run == OWN else run
    recipe = load_recipe(recipe_path(registration.recipe), [*registration.settings, f"seed={seed}"], arm=arm)
    arms = {OWN: {OWN: 0.2 + shift, "base": 0.0}, "full": {"full": 0.2}}[run]
    values = {
        arm: {name: {"a": value, "b": value} for name in ("dc_score", "b_capscore")} for arm, value in arms.items()
    }
    result = RunResult(
        registration=registration.digest,
        settings=settings_digest(recipe),
        version="1",
        run=run,
        seed=seed,
        arms=values,
        readings=readings,
        cpu_seconds=7.0,
    )
    ResultFolder(folder / "balcaprl", registration).save(result)


@pytest.fixture
def stored(registered, tmp_path):
    """All results of the small registration but that of the second seed's arm."""
    for seed in (1, 2):
        store(tmp_path / "results", registered, OWN, seed, 0.01 * seed, sampled=1.0, cap=2.0)
    store(tmp_path / "results", registered, "full", 1)
    return tmp_path / "results"


def test_dry_run_names_the_missing_runs_and_their_cost_and_makes_none(tell, stored):
    done = tell("claims", "balcaprl", "--results", stored, "--dry-run")
    assert done.code == 0, done
    assert "1 run, about 7 CPU-seconds" in done.err
    assert "  own: finished" in done.err
    assert "  full: seeds 2" in done.err
    assert not (stored / "balcaprl" / "work").exists()


def test_report_counts_programmed_claims_apart_and_writes_page_csv_and_json(tell, registered, stored):
    store(stored, registered, "full", 2)
    done = tell("claims", "balcaprl", "--results", stored, "--only-report")
    assert done.code == 0, done
    assert max(map(len, done.out.splitlines())) <= 100
    lines = {line.split()[-1]: line for line in done.out.splitlines() if line.startswith("  ")}
    assert "holds" in next(line for line in done.out.splitlines() if " improves-dc " in line)
    assert "gates that do not pass: cap" in done.out
    words = " ".join(done.out.split())
    assert (
        "2 claims: 1 holds, 1 not testable here (1 conclusive). 1 claims that follow from a programmed table" in words
    )
    assert lines
    report = ClaimsReport.model_validate_json((stored / "balcaprl" / "claims.json").read_bytes())
    assert (report.registration, report.pilot) == (load_registration(registered).digest, False)
    assert report.cpu_seconds == 28.0
    with (stored / "balcaprl" / "claims.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["claim"] == "improves-dc"]
    assert [(row["seed"], float(row["difference"]), row["verdict"]) for row in rows] == [
        ("1", pytest.approx(0.21), "holds"),
        ("2", pytest.approx(0.22), "holds"),
    ]
    page = (stored / "balcaprl" / "claims.html").read_text()
    assert report.registration in page
    assert page.index("scripted, with programmed faults") < page.index("Gates of the world</h2>")
    assert page.count('class="claim"') == 3
    assert "<script" not in page
    assert 'src="http' not in page


def test_missing_seed_is_reported_as_incomplete(tell, stored):
    done = tell("claims", "balcaprl", "--results", stored, "--only-report", "--json")
    verdicts = {finding["claim"]["id"]: finding["verdict"] for finding in json.loads(done.out)["findings"]}
    assert verdicts == {"improves-dc": "holds", "full-dc": "not testable here", "programmed": "holds"}
    for seed in (1, 2):
        (stored / "balcaprl" / f"seed-{seed}" / "own.json").unlink()
    done = tell("claims", "balcaprl", "--results", stored, "--only-report", "--json")
    assert {finding["verdict"] for finding in json.loads(done.out)["findings"]} == {"incomplete"}


def test_fewer_seeds_are_a_pilot_without_verdicts(tell, stored):
    done = tell("claims", "balcaprl", "--results", stored, "--seeds", 1, "--only-report", "--json")
    report = ClaimsReport.model_validate_json(done.out)
    assert report.pilot
    assert {finding.verdict for finding in report.findings} <= {"incomplete", "not testable here"}
    assert "pilot" in report.headline


def test_results_of_another_registration_are_refused_before_anything_runs(tell, registered, stored):
    registered.write_text(SMALL.replace("margin: 0.03", "margin: 0.02"))
    done = tell("claims", "balcaprl", "--results", stored)
    assert done.code == 2
    assert "seed-1/full.json: measured under the registration" in done.err
    assert "--results" in done.err


@pytest.mark.parametrize(("words", "message"), [(["rlr4"], "rlr4"), ([], "--all"), (["rlr3", "--all"], "--all")])
def test_paper_is_one_or_all(tell, words, message):
    done = tell("claims", *words)
    assert done.code == 2
    assert message in done.err


def test_all_papers_are_planned_one_after_another(tell, tmp_path):
    done = tell("claims", "--all", "--dry-run", "--results", tmp_path)
    assert done.code == 0, done
    places = [done.err.index(f"{paper}: registration") for paper in ("RubiCap", "RLR³", "BalCapRL", "RubricRL")]
    assert places == sorted(places)


PROGRAM = """
import sys
from pathlib import Path
from rubricworks.claims import registration
registration.registration_path = lambda method: Path(sys.argv[1])
from rubricworks.cli import cli
cli(["claims", "balcaprl", "--results", sys.argv[2], "--seeds", "1"])
"""


@pytest.mark.slow
def test_killed_measurement_goes_on_where_it_stopped_and_shares_the_warm_up(tmp_path):
    path, results = tmp_path / "claims.yaml", tmp_path / "results"
    path.write_text(SMALL)
    command = [sys.executable, "-c", PROGRAM, str(path), str(results)]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        for line in first.stderr:
            if "seed 1, full" in line and line.rstrip().endswith(": train_balcaprl"):
                break
    finally:
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        first.stderr.close()
    own = results / "balcaprl" / "seed-1" / "own.json"
    before = own.read_bytes()
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "own" not in {line.split(", ")[1].split(" ")[0] for line in done.stderr.splitlines() if "seed 1, " in line}
    assert own.read_bytes() == before
    gates = {
        "base-length",
        "cap",
        "gate-shut",
        "string-rule",
        "second-reading",
        "biased-evaluator",
        "sampled",
        "prompt",
    }
    readings = RunResult.model_validate_json(before).readings
    assert readings.keys() == gates - {"biased-evaluator"}  # the recipe has no rater
    assert (readings["sampled"], readings["prompt"]) == (1, 0)
    full = RunResult.model_validate_json((results / "balcaprl" / "seed-1" / "full.json").read_bytes())
    assert len(full.arms["full"]["dc_score"]) == 16
    assert full.cpu_seconds > 0
    # The arm copied the warm-up of its seed's own run; of a seed whose results are stored nothing else is left.
    assert not (results / "balcaprl" / "work" / "seed-1").exists()
    assert "seed 1, full (1 run to go): done" in done.stderr
