import json

import pytest
import yaml
from kubeflow_api import FakeKubeflow

from rubricworks.recipe.files import recipe_path

CLUSTER = {
    "storage": "s3://runs/captions",
    "images": {"cpu": "registry.example/cpu:1", "trainer": "registry.example/trainer:1"},
    "service_account": "trainer",
    "pools": {"cpu": {}, "h100": {"accelerator": "nvidia.com/gpu"}},
    "stages": {"default": {"pool": "cpu"}, "train_policy": {"pool": "h100", "accelerators": 1}},
}
ARMS = {"gentle": {"policy.algorithm.rollouts.group_size": 2}}


@pytest.fixture
def fake(monkeypatch, tmp_path):
    monkeypatch.setenv("KF_PIPELINES_SA_TOKEN_PATH", str(tmp_path / "no-token"))
    with FakeKubeflow(version="2.17.0") as fake:
        monkeypatch.setenv("RUBRICWORKS_KUBEFLOW", fake.url)
        yield fake


@pytest.fixture
def recipe(tell, tmp_path):
    """A recipe that runs on a cluster; returns its file."""
    path = tmp_path / "ours.yaml"
    data = yaml.safe_load(recipe_path("rubicap").read_text())
    path.write_text(yaml.safe_dump({**data, "name": "ours", "cluster": CLUSTER, "arms": ARMS}))
    return path


def test_a_recipe_is_pushed_once_and_run(tell, fake, recipe):
    pushed = tell("pipelines", "push", recipe)
    assert pushed.code == 0, pushed.err
    version = fake.only("versions")
    assert pushed.out.strip() == version["name"]
    assert version["name"].startswith("rubicap-")
    assert "Kubeflow Pipelines 2.17.0 at" in pushed.err
    assert "would run on a CPU: set cluster.stages.caption_student.accelerators, " in pushed.err

    ran = tell("run", recipe, "--on", "kubeflow", "--run", "monday", "--set", "seed=7")
    assert ran.code == 0, ran.err
    assert "there already" in ran.err
    assert "would run on a CPU: set cluster.stages.caption_student.accelerators, " in ran.err
    assert len(fake.kept["versions"]) == 1
    record = fake.only("runs")
    assert ran.out == f"run monday of s3://runs/captions/monday\n{fake.url}/#/runs/details/{record['run_id']}\n"
    assert record["service_account"] == "trainer"
    arguments = record["runtime_config"]["parameters"]
    assert arguments["run"] == "s3://runs/captions/monday"
    assert json.loads(arguments["train_policy_config"])["seed"] == 7
    assert yaml.safe_load(json.loads(arguments["preflight_config"])["recipe"])["name"] == "ours"


@pytest.mark.parametrize("text", ["look \N{GRINNING FACE} é", "{{item}} {{=1+1}} {{{{", "[[Index]] [[CurrentTime]]"])
def test_texts_that_argo_or_mysql_would_change_or_refuse_arrive_as_they_are(tell, fake, recipe, text):
    """MySQL's utf8 stores no emoji; Argo and Kubeflow's schedules replace what stands in {{…}} and [[…]]."""
    data = yaml.safe_load(recipe.read_text())
    experiment = f"ours {text}"
    data["data"]["prompt"] = text
    recipe.write_text(yaml.safe_dump(data | {"tracking": {**data.get("tracking", {}), "experiment": experiment}}))
    ran = tell("run", recipe, "--on", "kubeflow", "--run", "monday")
    assert ran.code == 0, ran.err
    arguments = fake.only("runs")["runtime_config"]["parameters"]
    for value in arguments.values():
        assert value.isascii(), value
        assert "{{" not in value
        assert "[[" not in value
    assert fake.only("experiments")["display_name"] == experiment.replace("\N{GRINNING FACE}", "U+1F600")
    told = yaml.safe_load(json.loads(arguments["preflight_config"])["recipe"])
    assert (told["data"]["prompt"], told["tracking"]["experiment"]) == (text, experiment)


def test_an_emoji_in_the_cluster_section_is_refused_by_its_field(tell, fake, recipe):
    data = yaml.safe_load(recipe.read_text())
    data["cluster"]["stages"]["default"]["env"] = {"MOTTO": "go \N{ROCKET}"}
    recipe.write_text(yaml.safe_dump(data))
    pushed = tell("pipelines", "push", recipe)
    assert (pushed.code, len(pushed.err.splitlines())) == (2, 1)
    assert "cluster.stages.default.env.MOTTO: Kubeflow's database does not store '\N{ROCKET}'" in pushed.err


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "x{{$.json_escape[1]}}"])
def test_a_run_whose_name_leads_out_of_the_storage_is_not_started(tell, fake, recipe, name):
    ran = tell("run", recipe, "--on", "kubeflow", "--run", name)
    assert ran.code == 2
    assert f"--run {name!r}: a run's name is that of one folder" in ran.err
    assert not fake.kept["runs"]


def test_an_arm_runs_with_its_values_under_its_name_and_is_not_promoted(tell, fake, recipe):
    ran = tell("run", recipe, "--on", "kubeflow", "--arm", "gentle")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("run ours-gentle-20")
    assert "an arm is compared, not promoted" in ran.err
    arguments = fake.only("runs")["runtime_config"]["parameters"]
    assert json.loads(arguments["train_policy_config"])["algorithm"]["rollouts"]["group_size"] == 2
    assert yaml.safe_load(json.loads(arguments["preflight_config"])["recipe"])["arm"] == "gentle"
    executors = fake.only("versions")["pipeline_spec"]["pipeline_spec"]["deploymentSpec"]["executors"]
    assert "exec-train-policy" in executors
    assert not {"exec-promote", "exec-report"} & set(executors)


def test_a_run_of_a_name_that_is_there_is_refused(tell, fake, recipe):
    tell("run", recipe, "--on", "kubeflow", "--run", "monday")
    again = tell("run", recipe, "--on", "kubeflow", "--run", "monday")
    assert again.code == 2
    assert "run monday is going at" in again.err
    assert "rubricworks runs retry monday" in again.err
    assert len(fake.kept["runs"]) == 1


def test_runs_are_listed_shown_stopped_and_retried(tell, fake, recipe):
    tell("run", recipe, "--on", "kubeflow", "--run", "monday")
    run_id = fake.only("runs")["run_id"]
    listed = tell("runs", "list", "--on", "kubeflow").out.splitlines()
    assert listed[0].split() == ["run", "state", "pipeline", "began", "last", "change"]
    assert listed[1].split()[:3] == ["monday", "pending", "rubicap"]
    assert "run monday is canceling" in tell("runs", "stop", "monday").out
    fake.end(run_id, "CANCELED", {"prepare": "SUCCEEDED", "train-policy": "CANCELED"})
    output = tell("runs", "show", "monday", "--on", "kubeflow").out
    assert "monday: canceled" in output
    assert "s3://runs/captions/monday" in output
    assert [line.split()[:2] for line in output.splitlines()[3:]] == [
        ["prepare", "succeeded"],
        ["train_policy", "canceled"],
    ]
    assert "run monday is running" in tell("runs", "retry", "monday").out
    assert tell("runs", "show", "sunday", "--on", "kubeflow").code == 2


def test_a_run_is_waited_for_and_its_end_is_the_commands(tell, fake, recipe, monkeypatch):
    ends = iter(["RUNNING", "FAILED"])

    def goes_on(method, path):
        if method == "GET" and "/runs/" in path:
            fake.end(path.rsplit("/", 1)[1], next(ends), {"prepare": "SUCCEEDED"})

    fake.answer_instead = goes_on
    monkeypatch.setattr("rubricworks.kubeflow.recipe_runs._POLL_S", 0)
    ended = tell("run", recipe, "--on", "kubeflow", "--wait", "--run", "monday")
    assert ended.code == 1
    assert "monday: failed" in ended.out
    assert ended.err.count("prepare | succeeded") == 1


def test_a_schedule_is_made_listed_paused_and_deleted(tell, fake, recipe):
    result = tell("schedules", "create", recipe, "--cron", "0 3 * * 1", "--paused")
    assert result.out == "schedule ours: 0 3 * * 1, paused\n", result.err
    record = fake.only("recurringruns")
    assert record["runtime_config"]["parameters"]["run"] == "s3://runs/captions/ours-${KUBEFLOW_RUN_ID}"
    assert (record["max_concurrency"], record["no_catchup"]) == ("1", True)
    assert "ours  0 3 * * 1        paused" in tell("schedules", "list").out
    assert tell("schedules", "resume", "ours").out == "schedule ours is on\n"
    assert tell("schedules", "pause", "ours", "--cluster", recipe).out == "schedule ours is paused\n"
    assert tell("schedules", "delete", "ours").code == 0
    assert tell("schedules", "list").out == ""
    assert fake.kept["recurringruns"] == {}


def test_a_cron_with_six_fields_is_refused_before_anything_is_asked(tell, fake, recipe):
    result = tell("schedules", "create", recipe, "--cron", "0 0 3 * * 1")
    assert result.code == 2
    assert result.err.startswith("error: cron '0 0 3 * * 1' has six fields; give five, minute first")
    assert fake.asked == []


def test_a_version_that_exists_with_other_content_is_refused(tell, fake, recipe):
    assert tell("pipelines", "push", recipe, "--version", "release-1").code == 0
    result = tell("pipelines", "push", recipe, "--version", "release-1", "--set", "cluster.queue=team-b")
    assert result.code == 2
    assert "version release-1 of pipeline rubicap is at" in result.err
    assert "with other content; give this one another name with --version" in result.err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["run", "rubicap", "--on", "kubeflow"], "rubicap: the recipe has no cluster: section"),
        (["run", "quickstart", "--on", "kubeflow", "--set", "cluster.storage=s3://runs"], "world: is a simulation"),
        (["run", "ours.yaml", "--on", "kubeflow", "--arm", "x"], "no arm 'x'; there are gentle"),
        (["run", "ours.yaml", "--on", "kubeflow", "--reuse", "x"], "this machine, which pods do not see; leave it out"),
        (["run", "--resume", "x", "--on", "kubeflow"], "with one on Kubeflow: rubricworks runs retry x"),
        (
            ["pipelines", "push", "ours.yaml", "--set", "cluster.stages.train_policy.pool=b200"],
            "stages.train_policy.pool: no pool 'b200'; there are cpu, h100",
        ),
        (["runs", "list"], "runs: no such folder"),
    ],
)
def test_what_cannot_be_is_one_line_before_anything_is_asked(tell, fake, recipe, command, message):
    result = tell(*command)
    assert result.code == 2
    assert message in result.err
    assert len(result.err.splitlines()) == 1
    assert fake.asked == []


def test_a_backend_that_does_not_let_us_in_is_one_line(tell, fake, monkeypatch):
    fake.token = "s3cret"
    monkeypatch.setenv("RUBRICWORKS_KUBEFLOW_TOKEN", "expired-token")
    result = tell("runs", "list", "--on", "kubeflow")
    assert (result.code, len(result.err.splitlines())) == (2, 1)
    assert "does not accept the token; renew it (HTTP 401)" in result.err
    assert "expired-token" not in result.err
