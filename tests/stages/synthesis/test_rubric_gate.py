"""`rubric.audit`: written rubrics are tried by the policy's judge before training, and may end the run."""

import hashlib
import json
import re
from pathlib import Path

import pytest
from asked_stages import prepare
from criteria_readings import also_reads, criteria_to_read, say_readings
from scripted_server import say

from rubricworks.data.rubric_sets import RubricEntry
from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.evaluation.rubric_audit import RubricAudit
from rubricworks.recipe.estimate import estimate_calls
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.runtime.job import Job
from rubricworks.runtime.launch import launch
from rubricworks.stages.synthesis.rubric_gate import AuditGate, audit_before_training

ONE_ONLY = "names one thing only"


class Models:
    """Two teachers, a writer and a judge: a picture shows one thing, and a caption names it and says that it is small.

    The writer's rubrics ask for both, and, if it is careful, for nothing else to be named.
    """

    def __init__(self, careful: bool) -> None:
        self.careful = careful

    @also_reads
    def __call__(self, _, body):
        content = body["messages"][-1]["content"]
        if body["model"] == "judge":
            return say(self.judge(content))
        thing = f"thing-{hashlib.sha256(content[0]['image_url']['url'].encode()).hexdigest()[:6]}"
        if body["model"] != "writer":
            return say(f"A {thing} stands here. It is small." if body["model"] == "right" else "It is small. Nothing.")
        titles = [f"names {thing}", "says small", *([ONE_ONLY] if self.careful else [])]
        right = re.search(r'name="(Model \d)">\nA thing', content[1]["text"])[1]
        empty = dict.fromkeys(("description", "justification", "teacher_consensus"), "")
        fields = {"weight": 3, "student_already_met": False, "reference_teachers": [right]} | empty
        criteria = [{"criterion": title, "evaluation_rule": title, **fields} for title in titles]
        return say(json.dumps({"rubrics": criteria}))

    def judge(self, text):
        caption = text.split("<caption>\n")[1]
        things = set(re.findall(r"thing-\w+", caption))
        scores = []
        for criterion in json.loads(text.split("<criteria>\n")[1].split("\n</criteria>")[0]):
            title = criterion["criterion"]
            met = len(things) == 1 if title == ONE_ONLY else title.split()[-1] in caption
            scores.append({"id": criterion["id"], "reasoning": "", "score": int(met)})
        return json.dumps({"verdicts": scores})


@pytest.fixture
def synthesize(tmp_path, serve):
    """Runs the stage in one run's folder; returns the server and a function from the gate's settings to the output."""
    samples = prepare(tmp_path, 7)  # five to train on

    def start(careful: bool):
        server = serve(Models(careful))
        teachers = [{"url": server.url, "model": name} for name in ("wrong", "right")]
        run = tmp_path / "run"
        captions = launch("caption_committee", json.dumps({"teachers": teachers}), str(run), {"samples": samples})
        judge = {"judges": [{"url": server.url, "model": "judge"}]}

        def stage(**gate) -> Path:
            config = {"writer": {"url": server.url, "model": "writer"}, "consensus": 1, "coverage": "full"}
            config |= {"audit": judge | gate} if gate else {}
            inputs = {"samples": samples, "captions": captions}
            return Path(launch("synthesize_rubrics", json.dumps(config), str(run), inputs))

        return server, stage

    return start


def asked_of_judge(server):
    return sum(heard.body["model"] == "judge" for heard in server.chats)


def test_refusal_names_the_worst_rubrics_and_can_become_a_warning(synthesize, tmp_path):
    server, stage = synthesize(careful=False)
    with pytest.raises(
        UserError, match=r"rubric\.audit: 100.% of 5 audited rubrics are flagged, and at most 20.% are allowed"
    ) as told:
        stage(action="refuse")
    out = tmp_path / "run" / "synthesize_rubrics"
    audit = RubricAudit.model_validate_json((out / "audit.json").read_text())
    assert audit.by_flag["presence only"] == 5
    assert f"{audit.worst[0].sample_id} (presence only" in str(told.value)
    assert f"the page: {out}/audit.html" in str(told.value)
    assert (out / "audit.html").exists()
    assert not (out / "done.json").exists()  # so that no later stage can start
    assert json.loads((tmp_path / "run" / "error.json").read_text())["stage"] == "synthesize_rubrics"
    asked = len(server.chats)
    with pytest.raises(UserError, match="are flagged"):
        stage(action="refuse")
    with pytest.warns(UserWarning, match=r"rubric\.audit: 100.% of 5 audited rubrics"):
        stage(action="warn")
    assert len(server.chats) == asked  # rubrics and verdicts come from the run's cache
    assert (out / "done.json").exists()


def test_sound_rubrics_pass_and_the_figures_stand_in_the_ledger(synthesize, tmp_path):
    _, stage = synthesize(careful=True)
    out = stage(action="refuse")
    audit = RubricAudit.model_validate_json((out / "audit.json").read_text())
    assert audit.by_flag == {}
    # The teacher whom the criteria name as right comes first, though it stands second in the committee.
    assert {finding.rewards["response"] for finding in audit.findings} == {1.0}
    assert audit.gap.value == pytest.approx(1 / 3)
    splits = {row["sample_id"]: row["split"] for row in read_rows(tmp_path / "prepared" / "prepare")}
    assert {splits[finding.sample_id] for finding in audit.findings} == {"train"}
    lines = [json.loads(line) for line in (tmp_path / "run" / "ledger.jsonl").read_text().splitlines()]
    assert lines[-1]["audit"] == {"rubrics": 5, "flagged": 0.0, "gap": pytest.approx(1 / 3)}


def test_a_sample_of_rubrics_is_audited_and_more_may_be_flagged(synthesize):
    _, stage = synthesize(careful=False)
    audit = RubricAudit.model_validate_json((stage(action="refuse", sample=2, flagged=1.0) / "audit.json").read_text())
    assert len(audit.findings) == 2


def test_what_the_criteria_join_is_read_before_training_too(synthesize, serve):
    _, stage = synthesize(careful=True)
    models = Models(careful=True)

    def judge(number, body):
        criteria = criteria_to_read(body)
        return say_readings(criteria, joined=[ONE_ONLY]) if criteria else models(number, body)

    with pytest.raises(UserError, match=r"100.% of 5 audited rubrics are flagged.*\(compound\)"):
        stage(action="refuse", judges=[{"url": serve(judge).url, "model": "judge"}])


def test_without_the_option_the_judge_is_not_asked(synthesize):
    server, stage = synthesize(careful=False)
    assert not (stage() / "audit.json").exists()
    assert asked_of_judge(server) == 0


def test_a_judge_that_answers_no_probe_is_an_error(synthesize, serve):
    _, stage = synthesize(careful=True)
    broken = serve(lambda *_: say("I do not know."))
    with pytest.raises(UserError, match=r"calls failed.*audit judge at"):
        stage(action="warn", judges=[{"url": broken.url, "model": "judge"}])


def test_a_gate_that_can_try_nothing_refuses_and_warns_only_where_that_is_asked(tmp_path):
    job = Job(stage="synthesize_rubrics", run=tmp_path, out=tmp_path / "synthesize_rubrics", inputs={}, made_by={})
    entries = [RubricEntry(name, Rubric(criteria=(Criterion(criterion="names it", weight=1),))) for name in "abc"]
    judges = ({"url": "http://judge/v1", "model": "judge"},)
    words = {"option": "rubric.audit", "remedy": "mend them"}
    refuse, warn = (AuditGate(action=action, judges=judges) for action in ("refuse", "warn"))
    with pytest.raises(UserError, match=r"rubric\.audit: none of 3 .* See in .*set rubric\.audit to warn"):
        audit_before_training(refuse, job, entries, {"a": []}, **words)
    with pytest.warns(UserWarning, match=r"rubric\.audit: none of 3 training samples"):
        assert audit_before_training(warn, job, entries, {"a": []}, **words) is None


def test_a_recipe_takes_the_policys_judge_and_its_plan_counts_the_calls():
    plain, gated = (load_recipe(recipe_path("quickstart"), overrides) for overrides in ([], ["rubric.audit=refuse"]))
    assert plain.stage_configs()["synthesize_rubrics"].audit is None
    assert gated.stage_configs()["synthesize_rubrics"].audit.judges == (gated.policy.reward.judge,)
    changed = {name for name, text in gated.stage_json().items() if text != plain.stage_json()[name]}
    assert changed - {"promote"} == {"synthesize_rubrics"}
    (audit,) = [call for call in estimate_calls(gated, 3328) if call.purpose == "audit"]
    assert (audit.stage, audit.count, audit.endpoint.model) == ("synthesize_rubrics", 100 * 15, "judge")
    (reading,) = [call for call in estimate_calls(gated, 3328) if call.purpose == "audit reading"]
    assert (reading.stage, reading.count, reading.endpoint.model) == ("synthesize_rubrics", 100 * 2, "judge")
    own = load_recipe(
        recipe_path("quickstart"),
        ["rubric.audit={action: warn, sample: 10, judges: [{url: 'http://other/v1', model: other}]}"],
    )
    assert [judge.model for judge in own.stage_configs()["synthesize_rubrics"].audit.judges] == ["other"]


def test_an_action_that_does_not_exist_is_refused():
    with pytest.raises(UserError, match=r"rubric\.audit.*'warn' or 'refuse'"):
        load_recipe(recipe_path("quickstart"), ["rubric.audit=block"])
