"""What each method's page tells of its judge, and of its rubrics before training: audit, and figures of agreement."""

import json

import pytest
from report_page import text_of

from rubricworks.errors import UserError
from rubricworks.evaluation.rubric_audit import CriterionFlag, RubricAudit, RubricFinding
from rubricworks.grading.agreement.judge_errors import JudgeErrors
from rubricworks.grading.agreement.judge_probe import JudgeProbe, ResponsePrice
from rubricworks.grading.agreement.report import AgreementReport, JudgeIdentity
from rubricworks.llm.identity import Identity, PinnedEntry
from rubricworks.metrics import Interval
from rubricworks.recipe.cluster_configs import cluster_only_configs
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.runs.recipe_checks import check_machine
from rubricworks.runtime.job import Job
from rubricworks.runtime.stage_table import STAGES

AUDITED = {
    "report": "synthesize_rubrics",
    "balcaprl_report": "peer_rubrics",
    "rlr3_report": "offline_filter",
    "rubricrl_report": "train_generator",
}
RECIPES = {
    "report": "rubicap-laptop",
    "balcaprl_report": "balcaprl-laptop",
    "rlr3_report": "rlr3-laptop",
    "rubricrl_report": "rubricrl-ar-laptop",
}
PROBES = ("response", "half", "padded", "shuffled", "everything", "other", "empty", "parroted")


def share(value: float) -> Interval:
    return Interval(value=value, low=value / 2, high=value * 2, samples=40, missing=0)


def price(calls: float, **more: float) -> ResponsePrice:
    return ResponsePrice(calls=calls, prompt_tokens=410 * calls, completion_tokens=90, **more)


AGREEMENT = AgreementReport(
    raters=(),
    empty_labels=0,
    groups=(),
    comparisons=(),
    errors=(
        JudgeErrors(
            judge="small",
            labelled=118,
            unlabelled=840,
            false_positive=share(0.2),
            false_negative=share(0.1),
            judged_met=0.71,
            truly_met=share(0.3),
        ),
    ),
    probe=JudgeProbe(
        judge="small",
        revision="",
        identity=PinnedEntry(identity=Identity("small-7b", ""), prompts=("judge-2",)),
        responses=32,
        verdicts=128,
        unjudged=0,
        repeats=3,
        temperature=0,
        flips=share(0.04),
        order_changes=share(0.06),
        call_changes=share(0.07),
        per_response=price(1, cached_tokens=128, dollars=0.001),
        per_criterion=price(4, cached_tokens=0, dollars=0.003),
    ),
)


def write_audit(folder) -> None:
    findings = tuple(
        RubricFinding(
            sample_id=name,
            flags=(CriterionFlag(flag="presence only", reason="all of it"),) if name == "a" else (),
            rewards={**dict.fromkeys(PROBES, 0.75), "response": 1.0},
            criteria=2,
            order_changes=int(name == "b"),
            impossible_credited=False,
            unjudged=0,
        )
        for name in "abcd"
    )
    folder.mkdir(parents=True)
    audit = RubricAudit(judge="small", findings=findings, criteria=8, calls=40)
    (folder / "audit.json").write_text(audit.model_dump_json())


def report(stage: str, run, **config) -> str:
    module = STAGES[stage].load()
    module.run(module.Config(**config), Job(stage=stage, run=run, out=run / stage, inputs={}, made_by={}))
    return text_of((run / "report.html").read_text()).replace("\N{NARROW NO-BREAK SPACE}", " ")


@pytest.mark.parametrize(("stage", "audited"), AUDITED.items())
def test_each_page_tells_the_audit_and_what_was_measured_of_the_judge(stage, audited, tmp_path):
    run = tmp_path / "run"
    write_audit(run / audited)
    without = report(stage, run)
    assert "Errors of the judge" not in without
    file = tmp_path / "agreement.json"
    file.write_text(AGREEMENT.model_dump_json())
    text = report(stage, run, agreement=str(file))
    for words in (
        "25 % of 4 audited rubrics are flagged",
        "With the criteria in reverse, 12 % of the judge's verdicts change",
        f"The page with the worst ones is {audited}/audit.html",
        "presence only 1 naming everything at random keeps the reward",
        "small credits 20 % (10 % to 40 %) of what people do not credit and misses 10 % (5 % to 20 %)",
        "the same question, 3 draws: 4 % (2 % to 8 %) of verdicts flip",
        "criteria in reverse: 6 % (3 % to 12 %) change",
        "1 call, 410 tokens in (128 of them cached there), 90 out",
        "3 times the dollars",
    ):
        assert words in text
    summary = json.loads((run / "summary.json").read_text())
    assert summary["details"]["rubric_audit"]["flagged"] == 0.25
    assert load_recipe(recipe_path(RECIPES[stage])).success_lines(run) is not None, "the lines at the end of the run"
    file.unlink()
    assert json.loads((run / stage / "judge_agreement.json").read_text())["probe"]["responses"] == 32


SMALL = {"url": "http://gpu/v1", "model": "small"}
STRONG = {"url": "http://gpu/v1", "model": "strong"}
CASCADE = {"type": "cascade", "cheap": SMALL, "strong": STRONG}
OTHER = "Not known to be of this run's judge: the file of agreement"


def entry(model: str, **fields) -> PinnedEntry:
    return PinnedEntry(identity=Identity(model, ""), prompts=("judge-2",)).model_copy(update=fields)


@pytest.mark.parametrize(
    ("measured", "judge", "warning"),
    [
        ({"small": (entry("small-7b"),)}, SMALL, ""),
        (
            {"small > strong": (entry("small-7b"), entry("big"))},
            {"type": "cascade", "cheap": SMALL, "strong": STRONG},
            "",
        ),
        (
            {"Qwen2.5-7B-Instruct": (entry("Qwen2.5-7B-Instruct"),)},
            SMALL,
            "measured Qwen2.5-7B-Instruct, and the judge that grades is small; measure that one.",
        ),
        ({}, SMALL, "tells no identity of small; measure it on scorecards that lie in their run"),
        (
            {"small": (entry("small-7b"),)},
            {"type": "panel", "of": [SMALL, STRONG]},
            "measured small, and the judge that grades is small + strong",
        ),
        (
            {"small": (entry("small-7b", revision="r1"),)},
            SMALL,
            "measured small of revision r1, and the recipe's judge has (none)",
        ),
        (
            {"small": (entry("small-7b", prompts=("judge-1",)),)},
            SMALL,
            "measured small asked by judge-1, and it is asked by judge-2 now",
        ),
        (
            {"small": (entry("small-8b"),)},
            SMALL,
            "measured small as small-8b, and it answers as small-7b; measure the model that answers now",
        ),
    ],
)
@pytest.mark.parametrize("stage", AUDITED)
def test_a_page_says_that_figures_of_another_judge_are_not_this_ones(stage, measured, judge, warning, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    policy = {"reward": {"type": "rubric", "judge": judge}, "algorithm": {"type": "grpo"}}
    (run / "recipe.yaml").write_text(json.dumps({"policy": policy}))
    (run / "identities.json").write_text(json.dumps({f"small {16 * '0'}": entry("small-7b").model_dump()}))
    identities = tuple(JudgeIdentity(rater=name, judge=name, entries=entries) for name, entries in measured.items())
    file = tmp_path / "agreement.json"
    file.write_text(AGREEMENT.model_copy(update={"identities": identities}).model_dump_json())
    text = report(stage, run, agreement=str(file))
    assert "Errors of the judge" in text
    assert (f"{OTHER} {warning}" in text) if warning else (OTHER not in text)


@pytest.mark.parametrize(
    ("measured", "warning"),
    [
        ("sha256:3f2a vllm-0.30.0", ""),
        ("sha256:77b1 vllm-0.30.0", "measured genrm of revision sha256:77b1 vllm-0.30.0, and the recipe's judge has"),
    ],
)
def test_a_page_names_the_weights_and_engine_of_a_judge_that_the_run_served(measured, warning, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    policy = {"reward": {"type": "rubric", "judge": {"serve": "genrm"}}, "algorithm": {"type": "grpo"}}
    (run / "recipe.yaml").write_text(json.dumps({"serve": {"genrm": {"model": "./genrm"}}, "policy": policy}))
    served = entry("genrm", revision="sha256:3f2a vllm-0.30.0")
    (run / "identities.json").write_text(json.dumps({f"genrm {16 * '0'}": served.model_dump()}))
    identity = JudgeIdentity(rater="genrm", judge="genrm", entries=(entry("genrm", revision=measured),))
    file = tmp_path / "agreement.json"
    file.write_text(AGREEMENT.model_copy(update={"identities": (identity,)}).model_dump_json())
    text = report("report", run, agreement=str(file))
    assert "genrm answers as genrm, revision sha256:3f2a vllm-0.30.0, prompt judge-2" in text
    assert (f"{OTHER} {warning}" in text) if warning else (OTHER not in text)


@pytest.mark.parametrize("stage", AUDITED)
def test_a_page_without_audit_and_agreement_has_no_such_section(stage, tmp_path):
    text = report(stage, tmp_path)
    assert "tried before training" not in text
    assert "Errors of the judge" not in text
    assert json.loads((tmp_path / "summary.json").read_text())["details"].get("rubric_audit") is None


def test_missing_or_foreign_file_is_refused_and_a_changed_one_is_another_report(tmp_path):
    file = tmp_path / "agreement.json"
    config = STAGES["rlr3_report"].load_config()
    with pytest.raises(UserError, match=r"report\.agreement: \S*agreement\.json cannot be read"):
        config(agreement=str(file)).versions()
    file.write_text("{}")
    first = config(agreement=str(file)).versions()
    with pytest.raises(UserError, match=r"report\.agreement: .* is no file of rubricworks agreement --json: raters"):
        report("rlr3_report", tmp_path / "run", agreement=str(file))
    file.write_text(AGREEMENT.model_dump_json())
    assert config(agreement=str(file)).versions() != first
    assert config().versions() == {}


@pytest.mark.parametrize("name", ["quickstart", "balcaprl-laptop", "rlr3-laptop", "rubricrl-ar-laptop"])
def test_the_file_is_looked_for_before_a_run(name, tmp_path):
    file = tmp_path / "a.json"
    recipe = load_recipe(recipe_path(name), [f"report.agreement={file}"])

    def problems() -> list[str]:
        texts = [check.problem for check in check_machine(recipe, tmp_path) if check.name == "file report.agreement"]
        return [problem or "" for problem in texts]

    assert problems() == [f"{file}: no file is there; pods read a place such as s3://bucket/file"]
    file.touch()
    assert problems() == [""]
    assert cluster_only_configs(recipe)["preflight"].files == {"report.agreement": str(file)}
    assert cluster_only_configs(load_recipe(recipe_path(name)))["preflight"].files == {}
