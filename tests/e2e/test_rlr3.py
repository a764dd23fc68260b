"""RLR³ in small, as a user runs it: every table and figure there and consistent, and requests that show no more than
they may.
"""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from scripted_server import ScriptedServer
from small_rlr3 import TINY_RLR3, recorded_world
from tiny_run import Run, settings

from rubricworks.data.tables import count_rows, read_rows, read_samples
from rubricworks.evaluation.audit.summary import AuditSummary
from rubricworks.evaluation.audit.values import FAILURE_MODES, SETTINGS
from rubricworks.evaluation.scoreboard import read_scoreboard, summarise_scores
from rubricworks.llm.preflight import QUESTION
from rubricworks.methods.rlr3.accuracy import RIGHT, read_accuracies
from rubricworks.recipe.files import load_recipe
from rubricworks.rubrics import Rubric, Scorecard
from rubricworks.training.checkpoints import milestone_dirs
from rubricworks.verifiers.boxed import score_answer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

IMAGES_FOR = {"question-opener", "checklist-writer-1", "checklist-writer-2", "checklist-writer-3", "checklist-merger"}
SCORERS = {"scorer", "scorer-1", "scorer-2", "scorer-3"}
VERIFIER_NAMES = {"expr_verify", "text_verify", "bbox_verify"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Path, str, list[dict[str, Any]]]:
    """The run's folder, what it said, and every request for a chat."""
    home = tmp_path_factory.mktemp("home")
    with recorded_world(home / "world") as (door, environment):
        arguments = ["rlr3-laptop", "--set", "world=null", *settings(TINY_RLR3), "--run", "whole"]
        said = Run(home / "runs", *arguments, env=environment).finish()
        return home / "runs" / "whole", said, requests(door)


def requests(door: ScriptedServer) -> list[dict[str, Any]]:
    return [chat.body for chat in door.chats]


@pytest.fixture(scope="module")
def run(finished) -> Path:
    return finished[0]


def figures(run: Path, place: str) -> Any:
    return json.loads((run / place).read_text())


def test_questions_are_split_checklists_written_and_filtered(run):
    samples = {sample.sample_id: sample for sample in read_samples(run / "open_questions")}
    splits = Counter(sample.split for sample in samples.values())
    assert splits["held_out"] >= 60
    assert splits["warm_up"] >= 200
    assert splits["train"] == 60
    opened = figures(run, "offline_filter/statistics.json")
    asked = [sample for sample in read_samples(run / "prepare_questions", "train") if sample.options]
    left = [sample for sample in samples.values() if sample.split == "train" and sample.options]
    assert opened["mcq_converted"] == pytest.approx(len(left) / 60)
    assert len(left) < len(asked)

    rubrics = {
        row["sample_id"]: Rubric.model_validate_json(row["rubric"]) for row in read_rows(run / "write_checklists")
    }
    assert rubrics.keys() <= {name for name, sample in samples.items() if sample.split != "warm_up"}
    assert all(any(rubric.essential) for rubric in rubrics.values())
    assert {criterion.verifier for rubric in rubrics.values() for criterion in rubric.criteria} >= {
        None,
        *VERIFIER_NAMES,
    }
    filtered = list(read_rows(run / "offline_filter"))
    assert {row["sample_id"] for row in filtered} == {name for name in rubrics if samples[name].split == "train"}
    assert all(row["kept"] == row["essential"] <= row["any"] for row in filtered)
    assert opened["kept"] == sum(row["kept"] for row in filtered)


@pytest.mark.parametrize("arm", ["train_rlr3", "train_rlvr"])
def test_both_arms_are_trained_for_all_steps_on_what_the_filter_kept(run, arm):
    rows = list(read_rows(run / arm / "rollouts"))
    filtered = {row["sample_id"] for row in read_rows(run / "offline_filter") if row["kept"]}
    assert {row["sample_id"] for row in rows} <= filtered
    assert Counter(row["step"] for row in rows) == dict.fromkeys((1, 2, 3, 4), 16)
    assert count_rows(run / arm / "scorecards") == 64
    assert list(milestone_dirs(run / arm)) == [2, 4]
    assert figures(run, f"{arm}/alarm.json")["state"] != "fired"


def test_rlvr_rewards_the_box_and_rlr3_more_than_that(run):
    samples = {sample.sample_id: sample for sample in read_samples(run / "open_questions", "train")}
    for row in read_rows(run / "train_rlvr" / "rollouts"):
        sample = samples[row["sample_id"]]
        score = score_answer(row["response"], sample.answer, options=bool(sample.options))
        assert row["reward"] == pytest.approx(score if row["tokens"] < 64 else 0)
    cards = [Scorecard.model_validate_json(row["scorecard"]) for row in read_rows(run / "train_rlr3" / "scorecards")]
    assert all(card.complete for card in cards)
    verdicts = [verdict for card in cards for verdict in card.verdicts]
    assert {bool(verdict.call) for verdict in verdicts} == {True, False}  # verified ones, and judged ones


def test_evaluation_summary_and_promotion_agree_with_the_table(run):
    rows = list(read_rows(run / "score"))
    held_out = {sample.sample_id: sample.task for sample in read_samples(run / "open_questions", "held_out")}
    models = {("base", None), ("rlvr", 2), ("rlvr", 4), ("rlr3", 2), ("rlr3", 4)}
    answered = [row for row in rows if row["scorer"] == "answers"]
    assert Counter((row["model"], row["step"]) for row in answered) == dict.fromkeys(models, len(held_out))
    assert {row["sample_id"] for row in answered} == held_out.keys()
    assert count_rows(run / "score" / "responses") == len(answered)
    board = read_scoreboard(run / "score")
    again = summarise_scores(rows, tasks=held_out, by_task=(RIGHT,), select_by=RIGHT, seed=1)
    assert (board.models, board.best, board.differences) == (again.models, again.best, again.differences)
    answers = read_accuracies(board)
    assert set(answers.base.tasks) == {"box", "colour", "count", "relation", "word"}
    best = milestone_dirs(run / "train_rlr3")[answers.best["rlr3"]]
    assert (run / "score" / "model").resolve() == best.resolve()

    summary = figures(run, "summary.json")
    details = summary["details"]
    assert details["macro"]["base"]["value"] == summary["scores"][RIGHT]["base"] == answers.base.macro.value
    assert summary["scores"][RIGHT]["policy"] == answers.accuracy("rlr3").macro.value
    for arm in ("rlr3", "rlvr"):
        assert details["macro"][arm]["best"]["value"] == answers.accuracy(arm).macro.value
        assert details["macro"][arm]["best_step"] == answers.best[arm]
        assert details["gains"][arm] == answers.gains[arm].model_dump()
    promotion = figures(run, "promote/promotion.json")
    gain = answers.gains["rlr3"]
    assert promotion["passed"] == (gain.low > 0 and gain.samples >= 30)
    assert summary["gate"] == "; ".join(promotion["reasons"])
    assert summary["dead_letters"] == sum(count_rows(path.parent) for path in run.glob("*/dead_letters/.manifest.json"))


def test_reward_model_is_measured_at_three_points_and_a_judge_in_every_setting(run):
    data = Counter(row["split"] for row in read_rows(run / "genrm_data"))
    assert data["test"] >= 2
    assert data["train"] >= 2
    genrm = figures(run, "train_genrm/genrm.json")
    assert genrm.keys() == {"base", "sft", "rlvr"}
    for model in genrm:
        assert genrm[model]["outputs"] == data["test"]
        assert 0 <= genrm[model]["criterion_level"]["value"] <= 1
    assert all((run / "train_genrm" / name / "config.json").is_file() for name in ("base/model", "sft/model", "model"))

    audit = AuditSummary.model_validate_json((run / "audit" / "audit.json").read_bytes())
    assert set(audit.settings) == set(SETTINGS)
    responses = Counter((row["setting"], row["mode"]) for row in read_rows(run / "audit"))
    for setting in SETTINGS:
        assert responses[setting, "regular"] == data["test"]
        assert sum(responses[setting, mode] for mode in FAILURE_MODES) == sum(
            response.found for mode, response in audit.responses.items() if mode in FAILURE_MODES
        )
    summary = figures(run, "summary.json")["details"]
    assert summary["genrm"]["rlvr"]["value"] == genrm["rlvr"]["criterion_level"]["value"]
    default = audit.settings["text"]
    assert default.keys() == {"regular", *FAILURE_MODES}
    assert summary["audit"] == {mode: default[mode].average.value for mode in FAILURE_MODES if default[mode].average}


def test_report_and_last_lines_tell_the_figures_and_the_ledger_has_every_stage(finished):
    run, said, _ = finished
    page = (run / "report.html").read_text()
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert "http://" not in page.replace("http://www.w3.org", "").replace("http://127.0.0.1", "")
    summary = figures(run, "summary.json")
    base = f"{100 * summary['details']['macro']['base']['value']:.1f}"
    assert base in page
    assert re.search(rf"base {base}\b.*RLVR .*RLR³ ", said)
    assert f"report: {run / 'report.html'}\neach rollout with its verdicts: " in said
    assert "rubricworks server --runs" in said
    stages = {json.loads(line)["stage"] for line in (run / "ledger.jsonl").read_text().splitlines()}
    assert stages == load_recipe(run / "recipe.yaml").stage_configs().keys()


def content(body: dict[str, Any]) -> str:
    parts = body["messages"][1]["content"]  # after it come repair turns
    return parts if isinstance(parts, str) else "\n".join(part["text"] for part in parts if part["type"] == "text")


def checklist(body: dict[str, Any]) -> list[dict[str, str]]:
    parts = json.loads(content(body).split("<checklist>\n")[1].split("\n</checklist>")[0])
    return [item for items in parts.values() for item in items]


def test_no_target_and_no_image_reaches_a_request_for_grading(finished):
    _, _, bodies = finished
    grading = [body for body in bodies if body["model"] in SCORERS]
    assert {body["model"] for body in grading} == SCORERS
    items = [item for body in grading for item in checklist(body)]
    for body in grading:
        assert "image_url" not in json.dumps(body)
        assert "target" not in json.dumps(body)
    references = {item["reference"] for item in items}
    assert references >= VERIFIER_NAMES
    assert not any("(" in reference for reference in references)


def test_images_go_to_those_who_write_and_to_the_audited_judge_in_one_setting_alone(finished):
    run, _, bodies = finished
    seen = Counter(body["model"] for body in bodies if "image_url" in json.dumps(body))
    assert seen.keys() == IMAGES_FOR | {"weak-scorer"}
    # Before the run it is asked for the colour of a picture, too.
    audited = [body for body in bodies if body["model"] == "weak-scorer" and QUESTION not in json.dumps(body)]
    each = sum(row["setting"] == "text" for row in read_rows(run / "audit"))
    assert seen["weak-scorer"] >= each
    with_targets = [body for body in audited if any("target=" in item["reference"] for item in checklist(body))]
    assert 0 < len(with_targets) < len(audited) / 2
    assert not any("image_url" in json.dumps(body) for body in with_targets)


def test_judge_of_answers_sees_question_reference_and_final_answer_alone(finished):
    run, _, bodies = finished
    references = {sample.answer for sample in read_samples(run / "open_questions", "held_out")}
    asked = [content(body) for body in bodies if body["model"] == "answer-judge"]
    assert asked
    for text in asked:
        match = re.fullmatch(
            r"<question>\n(.*)\n</question>\n\n<reference>\n(.*)\n</reference>\n\n<answer>\n(.*)\n</answer>", text
        )
        assert match
        assert match[2] in references
        assert "boxed" not in match[3]
