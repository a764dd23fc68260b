import json
import shlex
import shutil
from pathlib import Path

import pytest
import synthetic_run as folder
from report_page import Page, text_of, write_report

from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.evaluation.rubric_audit import CriterionFlag, RubricAudit, RubricFinding
from rubricworks.llm import Endpoint
from rubricworks.llm.identity import Identity, IdentityPin
from rubricworks.reports.scores import arena_order_changes
from rubricworks.rubrics import Criterion, Rubric


def test_summary_holds_the_greedy_means_of_the_evaluation(tmp_path: Path) -> None:
    folder.write_small_run(tmp_path / "run-1")
    html, summary = write_report(tmp_path / "run-1")
    assert summary["rubric_reward"] == {"base": pytest.approx(0.2), "policy": pytest.approx(0.8)}
    assert summary["oracle_f1"] == {"base": pytest.approx(0.4), "policy": pytest.approx(0.8)}
    assert summary["win_rate"]["value"] == pytest.approx(0.75)  # one win, one tie
    assert summary["win_rate"]["low"] <= 0.75 <= summary["win_rate"]["high"]
    assert summary["run"] == "run-1"
    assert "0.20 → 0.80" in text_of(html)
    assert (tmp_path / "run-1" / "report" / "summary.json").read_bytes() == (
        tmp_path / "run-1" / "summary.json"
    ).read_bytes()


def policy(**options) -> dict:
    judge = {"url": "http://gpu/v1", "model": "small"}
    return {"reward": {"type": "rubric", "judge": judge, **options}, "algorithm": {"type": "grpo"}}


@pytest.mark.parametrize(
    ("rates", "sentence"),
    [
        ({"false_positive": 0.12, "false_negative": 0.06}, "of all criteria, it credits 12 % of what is not met"),
        (
            {3: {"false_positive": 0.05, "false_negative": 0.0}},
            "of criteria of weight 3, it credits 5 % of what is not",
        ),
    ],
)
def test_page_states_the_error_rates_that_rewards_are_corrected_for(tmp_path: Path, rates, sentence: str) -> None:
    rollouts = [folder.rollout(step, "a cat", 5, 0.5) for step in (1, 2)]
    folder.write_table(tmp_path / "train_policy" / "rollouts", "rollouts", rollouts)
    assert "corrected for the judge" not in text_of(write_report(tmp_path)[0])
    folder.write_recipe(tmp_path, {"policy": policy(noise_correction=rates)})
    assert sentence in text_of(write_report(tmp_path)[0])


def test_page_tells_the_identities_that_the_run_pinned(tmp_path: Path) -> None:
    folder.write_small_run(tmp_path)
    assert "What the models said they are" not in text_of(write_report(tmp_path)[0])
    pin = IdentityPin(Endpoint(url="http://gpu/v1", model="small", revision="r1"), "judge", tmp_path)
    pin.note_prompt("judge-2")
    pin.check(Identity("small-7b", "fp_<1>"))
    folder.write_recipe(tmp_path, {"policy": policy()})
    page = text_of(write_report(tmp_path)[0])
    assert "Model Answers as Revision Prompts small small-7b (fp_<1>) r1 judge-2" in page


def test_page_tells_how_often_the_order_of_captions_changes_the_pairwise_verdict(tmp_path: Path) -> None:
    pairs = [("A", "B"), ("B", "A"), ("A", "A"), ("Tie", "B"), ("Tie", "Tie"), None, ("B", "B"), ("A", "B")]
    rows = [
        folder.evaluation(f"s{number}", model, "a cat", 0.5, win=0.5 if model == "policy" else None)
        for number in range(len(pairs))
        for model in ("base", "policy")
    ]
    folder.write_scores(tmp_path, "evaluate", rows)
    scores = list(read_rows(tmp_path / "score"))
    for row in scores:
        if row["scorer"] == "arena" and row["model"] == "policy" and (pair := pairs[int(row["sample_id"][1:])]):
            row["evidence"] = json.dumps({"reasons": ["r"] * 2, "judgments": pair})
    assert arena_order_changes(tmp_path, decoding="greedy") is None
    assert "change places" not in text_of(write_report(tmp_path)[0])
    for file in (tmp_path / "score").rglob("*"):
        if file.is_file() and file.parent.name != "responses" and file.name != "scores.json":
            file.unlink()
    folder.write_table(tmp_path / "score", "scores", scores)
    changed = arena_order_changes(tmp_path, decoding="greedy")
    assert changed.value == pytest.approx(3 / 7)
    assert arena_order_changes(tmp_path, decoding="sampled") is None
    assert "the pairwise judge's verdict changes in 43 % of comparisons" in text_of(write_report(tmp_path)[0]).replace(
        "\N{NARROW NO-BREAK SPACE}", " "
    )


def test_sampled_figures_stand_apart_from_greedy_ones(tmp_path: Path) -> None:
    rows = [
        folder.evaluation("a", model, "a cat", reward, decoding=decoding, win=win if model == "policy" else None)
        for decoding, base, policy, win in (("greedy", 0.5, 0.6, 1.0), ("sampled", 0.1, 0.3, 0.0))
        for model, reward in (("base", base), ("policy", policy))
    ]
    folder.write_scores(tmp_path, "evaluate", rows)
    _, summary = write_report(tmp_path)
    assert summary["rubric_reward"] == {"base": 0.5, "policy": 0.6}
    sampled = summary["decodings"]["sampled"]
    assert sampled["scores"]["rubric_reward"].items() >= {"base": 0.1, "policy": 0.3}.items()
    assert (summary["win_rate"]["value"], sampled["win_rate"]["value"]) == (1.0, 0.0)


def test_time_and_cost_are_summed_over_attempts(tmp_path: Path) -> None:
    call = {
        "purpose": "judge",
        "model": "m",
        "calls": 10,
        "cached": 4,
        "prompt_tokens": 900,
        "cached_tokens": 350,
        "errors": {"malformed": 2},
        "cost": 0.25,
    }
    folder.write_ledger(
        tmp_path,
        [
            {"stage": "prepare", "seconds": 2.0, "calls": []},
            {"stage": "score", "seconds": 3.5, "calls": [call]},
            {"stage": "score", "seconds": 1.5, "calls": [call]},
        ],
    )
    with (tmp_path / "ledger.jsonl").open("a") as ledger:
        ledger.write('{"stage": "promote", "seco')  # a kill in the middle of the line
    html, summary = write_report(tmp_path)
    assert summary["seconds"] == {"total": 7.0, "prepare": 2.0, "score": 5.0}
    assert summary["cost"] == pytest.approx(0.5)
    assert "score m judge 20 8 4 1,800 700 0" in text_of(html).replace("\N{NARROW NO-BREAK SPACE}", " ")


@pytest.mark.parametrize("hostile", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}"])
def test_captions_criteria_and_errors_are_text_never_markup(tmp_path: Path, hostile: str) -> None:
    folder.write_small_run(tmp_path, caption=hostile)
    rubric = Rubric(criteria=(Criterion(criterion=hostile, evaluation_rule=hostile, weight=3),))
    folder.write_table(tmp_path / "other" / "dead_letters", "dead_letters", [folder.letter("other", hostile)])
    rows = [
        folder.evaluation(
            "a", model, hostile, 1.0, judgment=hostile, scorecard=folder.scorecard("a", hostile, [1], rubric)
        )
        for model in ("base", "policy")
    ]
    for stage in ("score", "synthesize_rubrics"):
        shutil.rmtree(tmp_path / stage)
    folder.write_table(tmp_path / "synthesize_rubrics", "rubrics", [folder.rubric_row("a", rubric)])
    folder.write_scores(tmp_path, "evaluate", rows)
    page = Page(write_report(tmp_path)[0])
    assert "".join(page.words).count(hostile) >= 6
    assert not [tag for tag, _ in page.tags if tag == "script"]
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]


def test_page_asks_for_nothing_from_outside(tmp_path: Path) -> None:
    folder.write_small_run(tmp_path)
    page = Page(write_report(tmp_path)[0])
    sources = [value for _, attributes in page.tags for name, value in attributes.items() if name in ("src", "href")]
    assert len([source for source in sources if source and source.startswith("data:image/png;base64,")]) == 2
    assert all(source and source.startswith(("data:", "#")) for source in sources)


def test_missing_oracle_is_said_and_leaves_nulls(tmp_path: Path) -> None:
    folder.write_small_run(tmp_path, oracle=False)
    html, summary = write_report(tmp_path)
    assert summary["oracle_f1"] == {"base": None, "policy": None}
    assert "No oracle" in text_of(html)
    assert "Oracle precision" not in text_of(html)


def test_run_without_anything_says_what_is_missing(tmp_path: Path) -> None:
    html, summary = write_report(tmp_path / "empty")
    assert summary["win_rate"] is None
    assert summary["rubric_reward"] == {"base": None, "policy": None}
    assert summary["seconds"] == {"total": 0}
    assert (summary["promoted"], summary["alarm"], summary["simulated"]) == (False, None, False)
    for message in ("no rollouts", "no evaluation", "no held-out responses", "No recipe.yaml", "ledger is empty"):
        assert message in text_of(html)


def test_no_judged_rollout_is_said_and_the_other_curves_stay(tmp_path: Path) -> None:
    rollouts = [folder.rollout(step, "a cat . a dog", 5, None) for step in (1, 1, 2)]
    folder.write_table(tmp_path / "train_policy" / "rollouts", "rollouts", rollouts)
    text = text_of(write_report(tmp_path)[0])
    assert "No rollout has a reward" in text
    assert "3 of 3 rollouts could not be judged" in text
    assert "Tokens per caption 5.0 → 5.0" in text
    assert "Objects named per caption 2.00 → 2.00" in text


def test_curve_leaves_unjudged_rollouts_out_of_the_mean(tmp_path: Path) -> None:
    rollouts = [
        folder.rollout(1, "a cat", 4, 0.2),
        folder.rollout(1, "a cat", 8, None),
        folder.rollout(2, "a cat", 6, 0.5),
        folder.rollout(2, "a cat", 6, 0.7),
    ]
    folder.write_table(tmp_path / "train_policy" / "rollouts", "rollouts", rollouts)
    text = text_of(write_report(tmp_path)[0])
    assert "Reward 0.20 → 0.60" in text
    assert "1 0.200 6.0 1.00 0.00 2 1" in text


def test_alarm_stands_in_summary_banner_and_curve(tmp_path: Path) -> None:
    rollouts = [folder.rollout(step, "a cat", 5, step / 10) for step in range(1, 11)]
    folder.write_table(tmp_path / "train_policy" / "rollouts", "rollouts", rollouts)
    folder.write_json(tmp_path / "train_policy" / "alarm.json", {"step": 7, "reasons": ["length doubled", "so it is"]})
    html, summary = write_report(tmp_path)
    assert summary["alarm"] == "step 7: length doubled; so it is"
    assert "Hacking alarm at step 7" in text_of(html)
    marks = [a["style"] for _, a in Page(html).tags if a.get("class") == "mark-line"]
    assert marks
    assert set(marks) == {"left:66.67%"}  # step 7 of 1 to 10


def test_null_alarm_is_no_alarm(tmp_path: Path) -> None:
    folder.write_json(tmp_path / "train_policy" / "alarm.json", None)
    html, summary = write_report(tmp_path)
    assert summary["alarm"] is None
    assert "Hacking alarm" not in html


@pytest.mark.parametrize(("world", "is_labelled"), [({"scenes": 8}, True), (None, False)])
def test_simulated_run_says_so(tmp_path: Path, world: object, is_labelled: bool) -> None:
    folder.write_recipe(tmp_path, folder.RECIPE | ({"world": world} if world else {}))
    html, summary = write_report(tmp_path)
    assert summary["simulated"] is is_labelled
    assert ("Simulated." in text_of(html)) is is_labelled


def test_password_in_a_recipe_url_is_not_shown(tmp_path: Path) -> None:
    recipe = folder.RECIPE | {"tracking": {"uri": "http://me:hunter2@mlflow:5000"}}
    folder.write_recipe(tmp_path, recipe)
    html, _ = write_report(tmp_path)
    assert "secret" not in html
    assert "hunter2" not in html


@pytest.mark.parametrize(
    ("promoted", "passed", "message"),
    [(True, True, "Promoted: captioner version 4"), (False, False, "did not pass the gate")],
)
def test_gate_is_told_with_its_reasons(tmp_path: Path, promoted: bool, passed: bool, message: str) -> None:
    record = {"model_name": "captioner", "version": "4", "promoted": promoted, "passed": passed}
    folder.write_json(tmp_path / "promote" / "promotion.json", record | {"reasons": ["win rate: 0.4", "F1: fell"]})
    html, summary = write_report(tmp_path)
    assert (summary["promoted"], summary["gate"]) == (promoted, "win rate: 0.4; F1: fell")
    assert message in text_of(html)


def test_dead_letters_are_counted_over_stages_with_where_to_look(tmp_path: Path) -> None:
    folder.write_table(tmp_path / "score" / "dead_letters", "dead_letters", [folder.letter("score", "bad JSON")] * 3)
    folder.write_table(
        tmp_path / "train_policy" / "dead_letters", "dead_letters", [folder.letter("train_policy", "late")]
    )
    html, summary = write_report(tmp_path)
    assert summary["dead_letters"] == 4
    assert "score judge malformed 3 bad JSON score/dead_letters" in text_of(html)


def test_commands_can_be_pasted_also_when_the_folder_has_a_space(tmp_path: Path) -> None:
    run = tmp_path / "my runs" / "r1"
    (run / "train_policy" / "model").mkdir(parents=True)
    text = text_of(write_report(run)[0])
    assert f"rubricworks run --resume r1 --runs {shlex.quote(str(run.parent))}" in text
    assert f"--model {shlex.quote(str(run / 'train_policy' / 'model'))}" in text
    assert "mlflow ui --backend-store-uri" in text


def test_damaged_summary_names_file_and_stage(tmp_path: Path) -> None:
    folder.write_json(tmp_path / "score" / "scores.json", {"models": {}})
    with pytest.raises(UserError, match=r"score/scores\.json: base: .* run the stage score again"):
        write_report(tmp_path)


@pytest.mark.parametrize(
    ("wins", "losses", "message"),
    [
        (30, 0, "The trained policy beats its base model"),
        (0, 30, "The trained policy is worse than its base model"),
        (15, 15, "No clear winner"),
        (3, 0, "Too few comparisons to tell"),
    ],
)
def test_headline_claims_no_more_than_the_interval_carries(
    tmp_path: Path, wins: int, losses: int, message: str
) -> None:
    rows = [
        folder.evaluation(f"s{number}", model, "a cat", None, win=float(number < wins) if model == "policy" else None)
        for number in range(wins + losses)
        for model in ("base", "policy")
    ]
    folder.write_scores(tmp_path, "evaluate", rows)
    assert message in text_of(write_report(tmp_path)[0])


def test_an_audit_of_the_rubrics_stands_on_the_page_and_in_the_summary(tmp_path: Path) -> None:
    folder.write_small_run(tmp_path)
    rewards = dict.fromkeys(
        ("response", "half", "padded", "shuffled", "everything", "other", "empty", "parroted"), 0.75
    )
    findings = tuple(
        RubricFinding(
            sample_id=name,
            flags=(CriterionFlag(flag="presence only", reason="all of it"),) if name == "a" else (),
            rewards={**rewards, "response": 1.0},
            order_changes=0,
            impossible_credited=False,
            unjudged=0,
        )
        for name in "abcd"
    )
    audit = RubricAudit(judge="judge", findings=findings, criteria=8, calls=40)
    (tmp_path / "synthesize_rubrics" / "audit.json").write_text(audit.model_dump_json())
    html, summary = write_report(tmp_path)
    text = text_of(html).replace("\N{NARROW NO-BREAK SPACE}", " ")
    assert "25 % of 4 audited rubrics are flagged" in text
    assert "presence only 1 naming everything at random keeps the reward" in text
    assert summary["details"]["rubric_audit"] == {
        "rubrics": 4,
        "flagged": 0.25,
        "gap": 0.25,
        "flags": {"presence only": 1},
    }
