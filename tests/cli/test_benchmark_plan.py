"""The plan of an evaluation's benchmarks: answers, hours and dollars before a run."""

import json

import pytest
import yaml

JUDGE = {"url": "http://127.0.0.1:9/v1", "model": "gpt-4o-mini", "prices": [1.0, 10.0]}
QUESTIONS, SIMPLEVQA = 38_621, 2_025
"""All questions of the 15 benchmarks, and those of the one whose answers are of at most 1,024 tokens."""
MODELS = 21
"""The base, and ten milestones of RLR³ and of RLVR."""


@pytest.fixture
def plan(tell, tmp_path):
    """Lines about benchmarks in the plan of ten milestones."""

    def lines(*sets, more=()):
        options = ["--set", "policy.algorithm.steps=100", "--set", "policy.algorithm.milestone_every=10"]
        options += ["--set", f"evaluation.scorers.benchmarks={json.dumps(sets)}", "--runs", tmp_path / "runs", *more]
        result = tell("run", "rlr3-laptop", "--dry-run", *options)
        assert result.code == 0, result.err
        out = result.out.splitlines()
        first = next(number for number, line in enumerate(out) if line.startswith("benchmarks "))
        return out[first : first + 3]

    return lines


def finished_run(folder, tell, ledger):
    folder.mkdir(parents=True)
    path = folder / "copy.yaml"
    assert tell("recipes", "copy", "rlr3-laptop", path).code == 0
    (folder / "recipe.yaml").write_text(path.read_text())
    (folder / "ledger.jsonl").write_text("".join(json.dumps(line) + "\n" for line in ledger))


def test_without_a_measured_speed_hours_are_unknown_and_the_judge_is_priced(plan):
    title, hours, dollars = plan({"set": "rlr3-15", "judge": JUDGE})
    assert title == (
        f"benchmarks rlr3-15: 15 tasks x {MODELS} models, {MODELS * QUESTIONS:,} answers, of at most 49,152 tokens each"
    )
    assert hours.startswith("  hours: not known; no run here has measured how fast the model answers")
    each = (500 * 1.0 + 40 * 10.0) / 1e6
    half = 298_683  # half of the answers of the twelve benchmarks that ask a judge
    assert dollars == f"  dollars: {half * each:,.2f} to {MODELS * QUESTIONS * each:,.2f}, without accelerators"


def test_hours_and_dollars_lie_between_measured_lengths_and_the_limits(plan, tell, tmp_path):
    speeds = [["rlr3-15", 100, 50_000, 25.0], ["pretrain-9", 100, 10_000, 35.0]]
    ledger = [{"stage": "prepare", "seconds": 1.0}, {"stage": "score", "seconds": 60.0, "benchmark_speeds": speeds}]
    finished_run(tmp_path / "runs" / "tried", tell, ledger)
    _, hours, dollars = plan({"set": "rlr3-15"}, more=["--gpu-hour", "2"])
    least = MODELS * QUESTIONS * 500 / 1000 / 3600
    most = MODELS * ((QUESTIONS - SIMPLEVQA) * 49_152 + SIMPLEVQA * 1_024) / 1000 / 3600
    assert hours == f"  hours: {least:,.0f} to {most:,.0f}, at 1,000 tokens a second, as in tried"
    assert dollars == f"  dollars: {2 * least:,.2f} to {2 * most:,.2f}"
    _, _, unpriced = plan({"set": "rlr3-15", "limit": 10})
    assert unpriced == "  dollars: not known without the price of accelerators (--gpu-hour)"


def test_the_speed_of_another_model_is_not_taken(plan, tell, tmp_path):
    run = tmp_path / "runs" / "other"
    finished_run(run, tell, [{"stage": "score", "benchmark_speeds": [["rlr3-15", 100, 50_000, 25.0]]}])
    recipe = yaml.safe_load((run / "recipe.yaml").read_text())
    recipe["warm_up"]["student"] = "some/model"
    (run / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    assert "hours: not known" in plan({"set": "rlr3-15"})[1]


def test_a_set_of_unknown_size_says_so_and_question_files_are_counted(plan, tmp_path):
    assert plan({"set": "scene-5"})[0] == "benchmarks scene-5: the number of questions of scene-5 is not known here"
    rows = [{"image": "a.png", "question": "how many ?", "answer": "2"}] * 3
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    mine = {"set": "mine", "harness": "questions", "source": str(tmp_path / "mine.jsonl"), "max_new_tokens": 64}
    assert (
        plan(mine)[0] == f"benchmarks mine: 1 tasks x {MODELS} models, {MODELS * 3} answers, of at most 64 tokens each"
    )


def test_the_price_of_an_hour_is_refused_for_a_run(tell):
    assert (
        "--gpu-hour prices the plan of a run: give it with --dry-run" in tell("run", "quickstart", "--gpu-hour=1").err
    )
