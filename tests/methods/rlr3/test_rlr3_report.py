import re
import shutil
from pathlib import Path

import pytest
import synthetic_rlr3_run as rlr3
import synthetic_run as folder
from report_page import Page, text_of, write_rlr3_report

from rubricworks.errors import UserError
from rubricworks.methods.rlr3.sections import success_lines
from rubricworks.reports.run_summary import RunSummary
from rubricworks.rubrics import Criterion, Rubric


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def test_headline_and_summary_hold_the_figures_of_the_evaluation(tmp_path: Path) -> None:
    answers = rlr3.write_whole_run(tmp_path / "run-1")
    html, summary = write_rlr3_report(tmp_path / "run-1")
    gain = answers.gains["rlr3 - rlvr"]
    assert (summary["run"], summary["simulated"]) == ("run-1", False)
    assert summary["details"]["macro"]["base"]["value"] == pytest.approx(0.4)
    assert summary["details"]["macro"]["rlvr"]["best"]["value"] == pytest.approx(0.6)
    assert (summary["details"]["macro"]["rlvr"]["best_step"], summary["details"]["macro"]["rlvr"]["last_step"]) == (
        20,
        30,
    )
    assert summary["details"]["macro"]["rlvr"]["last"]["value"] == pytest.approx(16 / 30)
    assert summary["details"]["macro"]["rlr3"]["best"]["value"] == pytest.approx(0.9)
    assert summary["details"]["gains"]["rlr3 - rlvr"] == gain.model_dump()
    text = f"RLR³ is better than RLVR: 90.0 % against 60.0 % (base 40.0 %) right on average over 3 tasks, +30.0 points ({percent(gain.low)} to {percent(gain.high)})."  # noqa: E501
    assert text in text_of(html)


@pytest.mark.parametrize(
    ("rlvr", "rlr3_right", "message"),
    [
        (12, 27, "RLR³ is better than RLVR"),
        (27, 12, "RLR³ is worse than RLVR"),
        (20, 20, "RLR³ is not distinguishable from RLVR"),
        (20, 21, "RLR³ is not distinguishable from RLVR"),
        (None, 27, "RLR³ is better than the base model"),
        (27, None, "RLVR is better than the base model"),
        (None, None, "Neither RLR³ nor RLVR has been evaluated"),
    ],
)
def test_headline_claims_no_more_than_the_interval_carries(
    tmp_path: Path, rlvr: int | None, rlr3_right: int | None, message: str
) -> None:
    trained = {("rlvr", 10): rlvr, ("rlr3", 10): rlr3_right}
    right = {("base", 0): 10} | {key: count for key, count in trained.items() if count is not None}
    rlr3.write_answers(tmp_path, right, tasks=("count",))
    assert message in text_of(write_rlr3_report(tmp_path)[0])


def test_few_questions_prove_nothing(tmp_path: Path) -> None:
    rlr3.write_answers(tmp_path, {("base", 0): 0, ("rlvr", 1): 0, ("rlr3", 1): 5}, questions=5, tasks=("count",))
    text = text_of(write_rlr3_report(tmp_path)[0])
    assert "Too few questions to tell: 100.0 % against 0.0 % (base 0.0 %), over 5 questions." in text


def test_run_without_anything_says_what_is_missing(tmp_path: Path) -> None:
    html, summary = write_rlr3_report(tmp_path / "empty")
    nothing = {"tasks": 0, "base": None, "rlvr": None, "rlr3": None}
    assert summary["details"] == {"macro": nothing, "gains": {}, "genrm": {}, "audit": {}}
    assert summary["alarm"] is None
    for stage in ("prepare_questions", "offline_filter", "write_checklists", "genrm_data", "train_genrm", "audit"):
        assert f"the {stage} stage has not finished in this run" in text_of(html)
    for message in ("no held-out responses", "No rollouts of RLVR", "No recipe.yaml", "ledger is empty"):
        assert message in text_of(html)


@pytest.mark.slow
@pytest.mark.parametrize(
    "stage",
    [
        "prepare_questions",
        "offline_filter",
        "write_checklists",
        "genrm_data",
        "train_genrm",
        "audit",
        "train_rlvr",
        "train_rlr3",
        "score",
    ],
)
def test_page_is_made_whatever_stage_is_missing(tmp_path: Path, stage: str) -> None:
    rlr3.write_whole_run(tmp_path)
    assert f"the {stage} stage has not finished" not in text_of(write_rlr3_report(tmp_path)[0])
    shutil.rmtree(tmp_path / stage)
    assert f"the {stage} stage has not finished in this run" in text_of(write_rlr3_report(tmp_path)[0])


def test_damaged_file_is_named_with_the_stage_to_run_again(tmp_path: Path) -> None:
    folder.write_json(tmp_path / "score" / "scores.json", {"base": {}})
    with pytest.raises(UserError, match=r"score/scores\.json: .* run the stage score again"):
        write_rlr3_report(tmp_path)


@pytest.mark.parametrize("hostile", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}"])
def test_foreign_text_is_text_never_markup(tmp_path: Path, hostile: str) -> None:
    tasks = (hostile,)
    rlr3.write_answers(tmp_path, tasks=tasks, said=hostile)
    rlr3.write_questions(tmp_path, tasks=tasks, question=hostile)
    rlr3.write_corpus(tmp_path, name=hostile)
    rlr3.write_checklists(tmp_path, Rubric(criteria=(Criterion(criterion=hostile, reference=hostile, weight=1),)))
    folder.write_ledger(tmp_path, [{"stage": "write_checklists", "seconds": 1, "dropped_criteria": {hostile: 2}}])
    folder.write_table(tmp_path / "audit" / "dead_letters", "dead_letters", [folder.letter("audit", hostile)])
    page = Page(write_rlr3_report(tmp_path, examples=2)[0])
    # Corpus, dropped criteria, dead letter, task in table 2, in figure 2 and twice each: task, question, three answers.
    assert "".join(page.words).count(hostile) >= 5 + 2 * 5
    assert not [tag for tag, _ in page.tags if tag == "script"]
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]


def test_page_asks_for_nothing_from_outside_and_hides_passwords(tmp_path: Path) -> None:
    rlr3.write_whole_run(tmp_path)
    html, _ = write_rlr3_report(tmp_path, examples=3)
    sources = [value for _, a in Page(html).tags for name, value in a.items() if name in ("src", "href")]
    assert len([source for source in sources if source and source.startswith("data:image/png;base64,")]) == 3
    assert all(source and source.startswith(("data:", "#")) for source in sources)
    assert "secret" not in html
    assert "scorer-x executes the whole checklist, shown neither the image nor the verifiers' targets" in text_of(html)


def test_answers_are_marked_right_wrong_or_not_judged(tmp_path: Path) -> None:
    rlr3.write_questions(tmp_path, tasks=("count",), questions=2)
    rlr3.write_questions(tmp_path, "open_questions", tasks=("count",), questions=2, question="How many cats, in words?")
    answers = {("base", 0): ("none", False), ("rlvr", 7): ("\\boxed{4}", None), ("rlr3", 7): ("\\boxed{3}", True)}
    both = {"task": "count", "tokens": 1}
    rows = [
        row
        for (arm, step), (text, ok) in answers.items()
        for row in (
            {"sample_id": "count-0", "arm": arm, "step": step, "response": text, "right": ok, **both},
            {"sample_id": "count-1", "arm": arm, "step": step, "response": "\\boxed{3}", "right": True, **both},
        )
    ]
    rlr3.score_rows(tmp_path, rows)
    page = Page(write_rlr3_report(tmp_path)[0])
    labels = [a["aria-label"] for _, a in page.tags if (a.get("class") or "").startswith("mark ") and "role" in a]
    first = ["Base: wrong", "RLVR, step 7: could not be judged", "RLR³, step 7: right"]
    second = ["Base: right", "RLVR, step 7: right", "RLR³, step 7: right"]
    assert labels in (first + second, second + first)  # by the draw
    text = text_of(" ".join(page.words))
    assert "How many cats, in words? Answer: 3" in text  # as it was asked, after opening
    assert "Base none no box ✕" in text


@pytest.mark.slow
def test_questions_shown_are_as_many_as_asked_and_the_draw_follows_the_seed(tmp_path: Path) -> None:
    rlr3.write_whole_run(tmp_path)

    def shown(**config: int) -> list[str]:
        return re.findall(r"· ((?:count|colour|word)-\d+) · ", write_rlr3_report(tmp_path, **config)[0])

    assert len(shown()) == 12
    assert shown(seed=1) == shown(seed=1)
    assert shown(seed=1) != shown(seed=2)
    assert shown(examples=0) == []
    assert len(set(shown(examples=500))) == 90


def test_alarms_of_both_arms_stand_in_banner_curve_and_summary(tmp_path: Path) -> None:
    rlr3.write_training(tmp_path, steps=11)
    folder.write_json(tmp_path / "train_rlr3" / "alarm.json", {"step": 6, "reasons": ["length doubled"]})
    folder.write_json(tmp_path / "train_rlvr" / "alarm.json", None)
    html, summary = write_rlr3_report(tmp_path)
    assert summary["alarm"] == "RLR³, step 6: length doubled"
    assert "Hacking alarm in RLR³ at step 6." in text_of(html)
    assert "Hacking alarm in RLVR" not in text_of(html)
    assert {a["style"] for _, a in Page(html).tags if a.get("class") == "mark-line"} == {"left:50.00%"}


def test_simulated_run_carries_the_banner_and_the_note(tmp_path: Path) -> None:
    folder.write_recipe(tmp_path, rlr3.RECIPE | {"world": {"scenes": 8, "questions": 1}})
    html, summary = write_rlr3_report(tmp_path)
    assert summary["simulated"] is True
    assert "Simulated. The scene world stood in" in text_of(html)
    assert "What is simulated." in text_of(html)


def test_last_lines_tell_the_averages_the_gains_and_what_is_not_distinguishable(tmp_path: Path) -> None:
    rlr3.write_whole_run(tmp_path)
    shutil.rmtree(tmp_path / "score")
    answers = rlr3.write_answers(tmp_path, {("base", 0): 3, ("rlvr", 5): 20, ("rlr3", 5): 20})
    _, summary = write_rlr3_report(tmp_path)
    over = answers.gains["rlr3"]
    assert success_lines(RunSummary.model_validate(summary)) == [
        "right answers in %, average over 3 tasks: base 10.0, RLVR 66.7 (step 5), RLR³ 66.7 (step 5)",
        "RLR³ over RLVR: +0.0 points [0.0 to 0.0], not distinguishable",
        f"RLR³ over the base: +56.7 points [{percent(over.low)} to {percent(over.high)}]",
        f"RLVR over the base: +56.7 points [{percent(over.low)} to {percent(over.high)}]",
        "criteria that the GenRM executes right, in %: Base 50.0, SFT 90.0, RLVR 95.0",
        "undeserved credit in %: no final answer 20.0, irrelevant 30.0, wrong but plausible 40.0, adversarial 50.0",
        summary["learnt_nothing"],
        "not promoted: the promote stage has not finished",
    ]


def test_time_of_the_stages_leaves_the_report_out(tmp_path: Path) -> None:
    rlr3.write_whole_run(tmp_path)
    _, summary = write_rlr3_report(tmp_path)
    assert summary["seconds"] == {
        "total": 9.0,
        "prepare_questions": 2.0,
        "open_questions": 3.0,
        "write_checklists": 4.0,
    }
