from urllib.parse import parse_qs, urlsplit

import pytest
from kubeflow_api import FakeKubeflow
from kubeflow_stand_in import ARGUMENTS, compiled_pipeline

from rubricworks.errors import UserError
from rubricworks.kubeflow.connection import connect
from rubricworks.kubeflow.remote_runs import list_page, list_runs, retry_run, show_run, start_run, stop_run
from rubricworks.kubeflow.versions import push
from rubricworks.recipe.kubeflow import KubeflowConfig


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    return compiled_pipeline(tmp_path_factory.mktemp("compiled"))


@pytest.fixture
def fake():
    with FakeKubeflow() as fake:
        yield fake


@pytest.fixture
def kubeflow(fake):
    return connect(KubeflowConfig(url=fake.url, ui="https://kubeflow.example/pipeline/"))


@pytest.fixture
def begin(kubeflow, package):
    version = push(kubeflow, package, revision="g0123abc")

    def start(name, **arguments):
        parameters = {**ARGUMENTS, "run": f"s3://runs/{name}", **arguments}
        return start_run(kubeflow, version, name, parameters, experiment="captioner", service_account="trainer")

    return start


def test_a_run_is_started_from_the_version_with_its_arguments(fake, begin):
    run = begin("monday")
    record = fake.only("runs")
    assert record["pipeline_version_reference"]["pipeline_version_id"] == fake.only("versions")["pipeline_version_id"]
    assert record["runtime_config"]["parameters"] == {"run": "s3://runs/monday", "first_config": '{"steps": 8}'}
    assert (record["display_name"], record["service_account"]) == ("monday", "trainer")
    assert record["experiment_id"] == fake.only("experiments")["experiment_id"]
    assert run.page == f"https://kubeflow.example/pipeline/#/runs/details/{record['run_id']}"
    begin("tuesday")
    assert len(fake.kept["experiments"]) == 1


def test_runs_are_listed_newest_first_over_all_pages(kubeflow, begin):
    names = [begin(f"run-{number}").name for number in range(7)]
    assert [run.name for run in list_runs(kubeflow)] == names[::-1]
    assert [run.name for run in list_runs(kubeflow, limit=2)] == names[:-3:-1]


def test_pages_of_runs_are_the_whole_list_under_its_filters(kubeflow, fake, begin):
    runs = [begin(f"run-{number}") for number in range(9)]
    begin("other")
    for run in runs[::2]:
        fake.end(run.id, "SUCCEEDED")
    fake.kept["runs"][runs[1].id]["state"] = "RUNNING"

    def names(**filters):
        page = list_page(kubeflow, limit=2, **filters)
        pages = [page.runs]
        while page.token:
            page = list_page(kubeflow, limit=2, token=page.token, **filters)
            pages.append(page.runs)
        assert all(len(runs_of_page) <= 2 for runs_of_page in pages)
        return [run.name for runs_of_page in pages for run in runs_of_page]

    assert names() == ["other", *(f"run-{number}" for number in reversed(range(9)))]
    assert names(states=["SUCCEEDED"]) == ["run-8", "run-6", "run-4", "run-2", "run-0"]
    assert names(states=["PENDING", "RUNNING"], name_part="RUN") == ["run-7", "run-5", "run-3", "run-1"]
    assert names(pipeline="small") == names()
    assert names(pipeline="rubicap") == []
    assert names(name_part="r_n") == names(name_part="%") == [], "Kubeflow's wildcards are letters here"
    with pytest.raises(UserError, match="Invalid package token"):
        list_page(kubeflow, limit=2, token="another list's")


@pytest.mark.parametrize("attempts", [0, 2])
def test_a_stage_has_a_link_to_the_log_of_its_last_pod(kubeflow, fake, begin, attempts):
    run = begin("monday")
    tasks = {"prepare": "SUCCEEDED", "warm-up": "FAILED", "train-policy": "PENDING"}
    fake.end(run.id, "FAILED", tasks, attempts=attempts)
    prepare, warm_up, train = show_run(kubeflow, "monday").stages
    pods = {detail["pod_name"] for detail in fake.only("runs")["run_details"]["task_details"]}
    names = [parse_qs(urlsplit(stage.log).query)["podname"][0] for stage in (prepare, warm_up)]
    assert len(pods.intersection(names)) == 2
    assert all("system-container-impl" in name for name in names)
    last = {0: "executor", 2: "executor(1)"}[attempts]
    details = {
        detail["pod_name"]: detail["display_name"] for detail in fake.only("runs")["run_details"]["task_details"]
    }
    assert [details[name] for name in names] == [last, last]
    assert prepare.log.startswith("https://kubeflow.example/pipeline/k8s/pod/logs?")
    assert (train.log, train.started, train.ended) == ("", None, None)
    fake.end(run.id, "FAILED", tasks, attempts=attempts, names_pods=False)
    assert [(stage.stage, stage.log) for stage in show_run(kubeflow, "monday").stages] == [
        ("prepare", ""),
        ("warm_up", ""),
        ("train_policy", ""),
    ]


def test_a_run_is_shown_by_name_or_id_with_its_stages(kubeflow, fake, begin):
    run = begin("monday")
    assert show_run(kubeflow, "monday").ended is None
    fake.end(run.id, "SUCCEEDED", {"prepare": "SUCCEEDED", "caption-committee": "SKIPPED"})
    shown_run = show_run(kubeflow, "monday")
    assert shown_run == show_run(kubeflow, run.id)
    assert (shown_run.state, shown_run.uri) == ("SUCCEEDED", "s3://runs/monday")
    assert [(stage.stage, stage.state) for stage in shown_run.stages] == [
        ("prepare", "SUCCEEDED"),
        ("caption_committee", "SKIPPED"),
    ]
    assert shown_run.ended > shown_run.created
    with pytest.raises(UserError, match=r"no run 'sunday' at .*; `rubricworks runs list --on kubeflow` shows them"):
        show_run(kubeflow, "sunday")


def test_of_two_runs_of_one_name_the_id_is_asked_for(kubeflow, begin):
    first, second = begin("monday"), begin("monday")
    with pytest.raises(UserError, match=f"2 runs are named 'monday'; give the id of one: {first.id}, {second.id}"):
        show_run(kubeflow, "monday")
    assert show_run(kubeflow, second.id).id == second.id


def test_archived_runs_are_left_out(kubeflow, fake, begin):
    old = begin("monday")
    begin("tuesday")
    fake.kept["runs"][old.id]["storage_state"] = "ARCHIVED"
    assert [run.name for run in list_runs(kubeflow)] == ["tuesday"]


def test_a_run_is_stopped_and_goes_on_by_retry(kubeflow, fake, begin):
    run = begin("monday")
    assert stop_run(kubeflow, "monday").state == "CANCELING"
    fake.end(run.id, "CANCELED")
    with pytest.raises(UserError, match="run monday is not going: it is CANCELED; there is nothing to stop"):
        stop_run(kubeflow, "monday")
    assert retry_run(kubeflow, "monday").state == "RUNNING"
    with pytest.raises(UserError, match="run monday is RUNNING; only one that failed or was stopped is retried"):
        retry_run(kubeflow, "monday")
    assert len(fake.kept["runs"]) == 1


def test_arguments_that_the_version_does_not_take_are_told(begin):
    with pytest.raises(
        UserError, match=r"cannot start run monday: .*parameters differ: \['third_config'\] \(HTTP 400\)"
    ):
        begin("monday", third_config="{}")
