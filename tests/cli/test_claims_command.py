"""`rubricworks claims` on runs that are there already."""

import json
import re

import pytest
from claimed_runs import MACROS, PAIRS, write_run

from rubricworks.claims.report import ClaimsReport


@pytest.fixture
def runs(tmp_path):
    for seed, last in {1: 0.60, 2: 0.61, 3: 0.62}.items():
        macros = MACROS | {"rlr3": {30: 0.4, 60: last}}
        write_run(tmp_path / "runs" / f"seed-{seed}", seed=seed, macros=macros, pairs=[((0, 1), (1, 0))] * 20)
    return tmp_path / "runs"


def test_report_of_finished_runs_prints_and_writes_every_claim(tell, runs):
    result = tell("claims", "rlr3", "--runs", runs, "--seeds", "1-3", "--only-report")
    assert result.code == 0, result
    assert max(map(len, result.out.splitlines()[:-1])) <= 100
    words = " ".join(result.out.split())
    assert "scripted, with programmed faults" in words
    assert "not that the paper's number is reproduced" in words
    line = next(line for line in result.out.splitlines() if " macro-best " in line)
    assert line.split() == ["holds", "macro-best", "+0.110", "+0.085", "to", "+0.135", "above", "0"]

    report = ClaimsReport.model_validate_json((runs / "claims.json").read_bytes())
    assert report.seeds == (1, 2, 3)
    assert report.changed == ("policy.algorithm.rollouts.group_size: 8 → 2",)
    findings = {finding.claim.name: finding for finding in report.findings}
    assert findings["macro-best"].values == pytest.approx({1: 0.10, 2: 0.11, 3: 0.12})
    assert findings["gate-unmasks"].claim.ours
    assert sum(report.counts.values()) == len(findings) == 31

    table = (runs / "claims.md").read_text()
    row = next(line for line in table.splitlines() if "best milestones |" in line)
    assert [cell.strip() for cell in row.strip("|").split("|")][3:] == [
        "+0.100", "+0.110", "+0.120", "+0.110", "+0.085 to +0.135", "**holds**",
    ]  # fmt: skip
    assert table.index("scripted, with programmed faults") < table.index("| Claim |")
    assert "remapping-spreads, seed 2: only 0 such criteria" in table
    page = (runs / "claims.html").read_text()
    assert page.index("scripted, with programmed faults") < page.index("Table 2</h2>")
    assert page.count('class="claim"') == 31
    assert "<script" not in page


def test_finished_seeds_with_the_same_settings_are_reported_without_running(tell, runs):
    result = tell("claims", "rlr3", "--runs", runs, "--seeds", "1", "--seeds", "2,3", "--set", PAIRS)
    assert result.code == 0, result
    assert "seeds 1, 2, 3: finished in an earlier call" in result.err
    assert json.loads((runs / "claims.json").read_text())["seeds"] == [1, 2, 3]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only-report"], "seed-4: there is no run here"),
        (["--seeds", "1-3"], "seed-1 was run with other settings (policy.algorithm.rollouts.group_size: 2 → 8)"),
        (["--seeds", "1-3", "--only-report", "--set", PAIRS], "--only-report makes none"),
        (["--seeds", "7", "--set", "policy.stepps=3"], "stepps"),
        (["--seeds", "7", "--set", "seed=3"], "--set seed=3: what is random follows the seed of each run"),
        (["--seeds", "7", "--set", "policy.seed=3"], "follows the seed of each run"),
        (["--seeds", "3-1"], "ends before it begins"),
        (["--seeds", "1-20000000"], "are 20,000,000 seeds; give 1000 at most"),
        (["--seeds", "one"], "'one' is no seed"),
    ],
)
def test_mistakes_are_told_before_anything_runs(tell, runs, words, message):
    result = tell("claims", "rlr3", "--runs", runs, *words)
    assert result.code == 2
    assert message in result.err
    assert sorted(path.name for path in runs.iterdir()) == ["seed-1", "seed-2", "seed-3"]


def test_runs_that_differ_in_more_than_the_seed_are_not_compared(tell, runs):
    write_run(runs / "seed-4", seed=4, settings=[PAIRS, "policy.algorithm.steps=20"])
    result = tell("claims", "rlr3", "--runs", runs, "--seeds", "1-4", "--only-report")
    assert result.code == 2
    assert re.search(r"different settings \(policy.algorithm.steps: \d+ → 20\)", result.err)


def test_a_seed_that_a_section_has_of_its_own_is_a_setting(tell, runs):
    write_run(runs / "seed-4", seed=4, settings=[PAIRS, "policy.seed=9"])
    result = tell("claims", "rlr3", "--runs", runs, "--seeds", "1-4", "--only-report")
    assert result.code == 2
    assert "different settings (policy.seed: null → 9)" in result.err


def test_damaged_run_is_one_line(tell, runs):
    (runs / "seed-2" / "audit" / "audit.json").write_text("{")
    result = tell("claims", "rlr3", "--runs", runs, "--seeds", "1-3", "--only-report")
    assert result.code == 2
    assert "audit.json" in result.err
    assert not (runs / "claims.md").exists()


def test_unknown_paper_is_refused(tell):
    result = tell("claims", "rubicap")
    assert result.code == 2
    assert "rlr3" in result.err
