import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kubeflow_api import FakeKubeflow
from kubeflow_stand_in import ARGUMENTS, compiled_pipeline

from rubricworks.errors import UserError
from rubricworks.kubeflow.connection import connect
from rubricworks.kubeflow.cron import kubeflow_cron
from rubricworks.kubeflow.remote_runs import show_run
from rubricworks.kubeflow.schedules import (
    create_schedule,
    delete_schedule,
    list_schedules,
    pause_schedule,
    resume_schedule,
)
from rubricworks.kubeflow.versions import push
from rubricworks.recipe.kubeflow import KubeflowConfig
from rubricworks.runtime.run_uri import RUN_ID

EACH_ITS_OWN = {**ARGUMENTS, "run": f"s3://runs/weekly-{RUN_ID}"}


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    return compiled_pipeline(tmp_path_factory.mktemp("compiled"))


@pytest.fixture
def fake():
    with FakeKubeflow() as fake:
        yield fake


@pytest.fixture
def kubeflow(fake):
    return connect(KubeflowConfig(url=fake.url))


@pytest.fixture
def create(kubeflow, package):
    version = push(kubeflow, package, revision="g0123abc")
    return lambda name="weekly", cron="0 3 * * 1", **more: create_schedule(
        kubeflow, name, cron, version, **{"arguments": EACH_ITS_OWN, "experiment": "retrain", **more}
    )


def test_a_schedule_begins_one_run_at_a_time_and_makes_up_for_none(create, fake):
    schedule = create()
    record = fake.only("recurringruns")
    assert record["trigger"] == {"cron_schedule": {"cron": "0 0 3 * * 1"}}
    assert (record["max_concurrency"], record["no_catchup"], record["mode"]) == ("1", True, "ENABLE")
    version = record["pipeline_version_reference"]
    assert version["pipeline_version_id"] == fake.only("versions")["pipeline_version_id"] == schedule.version_id
    assert record["runtime_config"]["parameters"] == EACH_ITS_OWN
    assert (schedule.cron, schedule.on) == ("0 3 * * 1", True)


def test_a_run_that_a_schedule_begins_is_told_so(create, kubeflow, fake):
    schedule = create()
    scheduled_run = fake.begin_of(schedule.id)
    assert show_run(kubeflow, scheduled_run["run_id"]).schedule == schedule.id


def test_a_schedule_is_paused_resumed_and_deleted(create, kubeflow, fake):
    create("weekly")
    create("daily", "30 1 * * *", on=False)
    assert [(schedule.name, schedule.cron, schedule.on) for schedule in list_schedules(kubeflow)] == [
        ("daily", "30 1 * * *", False),
        ("weekly", "0 3 * * 1", True),
    ]
    assert not pause_schedule(kubeflow, "weekly").on
    assert resume_schedule(kubeflow, "weekly").on
    assert delete_schedule(kubeflow, "weekly").name == "weekly"
    assert [schedule.name for schedule in list_schedules(kubeflow)] == ["daily"]
    with pytest.raises(UserError, match=r"no schedule 'weekly' at .*; there are: daily$"):
        pause_schedule(kubeflow, "weekly")


def test_a_schedule_is_found_on_a_later_page_and_by_its_id(create, kubeflow, fake):
    names = [create(f"nightly-{number}").name for number in range(fake.page_size + 2)]
    assert [schedule.name for schedule in list_schedules(kubeflow)] == names
    last = list_schedules(kubeflow)[-1]
    assert pause_schedule(kubeflow, last.id).name == last.name


def test_a_name_that_is_taken_is_refused(create, fake):
    create()
    with pytest.raises(UserError, match=r"schedule weekly is there already \(0 3 \* \* 1\); choose another --name"):
        create(cron="0 4 * * 1")
    assert len(fake.kept["recurringruns"]) == 1


def test_a_schedule_whose_runs_would_share_a_folder_cannot_be_made(create):
    with pytest.raises(ValueError, match="every run of a schedule needs a folder of its own"):
        create(arguments={**EACH_ITS_OWN, "run": "s3://runs/weekly"})


def test_what_kubeflow_made_by_other_means_is_shown_as_it_is(create, kubeflow, fake):
    create()
    fake.only("recurringruns")["trigger"] = {"periodic_schedule": {"interval_second": "3600"}}
    assert list_schedules(kubeflow)[0].cron == "every 3600 s"
    fake.only("recurringruns")["trigger"] = {"cron_schedule": {"cron": "*/5 0 3 * * 1"}}
    assert list_schedules(kubeflow)[0].cron == "*/5 0 3 * * 1"


@pytest.mark.parametrize(
    ("cron", "message"),
    [
        ("0 0 3 * * 1", r"has six fields; give five, minute first: .* \(did you mean '0 3 \* \* 1'\?\)$"),
        ("0 3 * *", "has 4 fields; give five: minute, hour, day of the month, month, day of the week"),
        ("", "has 0 fields"),
        ("@daily", "write the five fields, not a word"),
        ("60 3 * * *", r"'60' is no minute \(0 to 59\)"),
        ("0 24 * * *", r"'24' is no hour \(0 to 23\)"),
        ("0 3 0 * *", r"'0' is no day of the month \(1 to 31\)"),
        ("0 3 * 13 *", r"'13' is no month \(1 to 12\)"),
        ("0 3 * * 7", r"'7' is no day of the week \(0 to 6\); Sunday is 0"),
        ("0 3 * * moon", "'moon' is no day of the week"),
        ("5-1 3 * * *", "'5-1' is no minute"),
        ("*/0 3 * * *", r"'\*/0' is no minute"),
        ("1,,2 3 * * *", "'' is no minute"),
        ("*-5 3 * * *", r"'\*-5' is no minute"),
        ("0 3 30 2 *", "no such month has such a day, it would never begin"),
        ("0 3 31 4,6,9,11 *", "it would never begin"),
    ],
)
def test_a_cron_that_is_none_is_refused(cron, message):
    with pytest.raises(UserError, match=message) as refused:
        kubeflow_cron(cron)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "cron", ["*/15 * * * *", "0 3 1-7,15 jan-mar mon", "5/20 0-6/2 29 2 *", "0 3 31 2 fri", "0 3 * * SUN", "0  3 * * *"]
)
def test_five_fields_become_six(cron):
    assert kubeflow_cron(cron).split() == ["0", *cron.split()]


FIELD = st.from_regex(r"(\*|\d{1,2}(-\d{1,2})?)(/\d{1,2})?(,\d{1,2})?", fullmatch=True)


@settings(max_examples=60)
@given(st.lists(FIELD, min_size=1, max_size=7).map(" ".join) | st.text(max_size=30))
def test_any_text_is_a_cron_or_refused_in_one_line(text):
    try:
        six_fields = kubeflow_cron(text)
    except UserError as error:
        six_fields = str(error)
    assert len(six_fields.splitlines()) == 1
    assert six_fields.startswith(("cron", "0 "))
