"""Rubric sets over HTTP: figures of criteria against brute force, versions that two persons agree on, their pages."""

import io
import json
import re
import statistics
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

import pyarrow.parquet as pq
import pytest
from pydantic import SecretStr
from served_api import TOKEN, Caller, ask, bearer, exchange, served, wait_for
from trained_run import NAMES, rubric, write_rubrics, write_run, write_table

from rubricworks.platform_api.services.rubrics.rubric_comparison import compare
from rubricworks.platform_api.settings import ApiSettings
from rubricworks.rubrics import Rubric

SET = "runs/today-1/rubrics/synthesize_rubrics"


@pytest.fixture(scope="module")
def caller(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    write_rubrics(write_run(folder))
    with served(ApiSettings(storage=str(folder), token=SecretStr(TOKEN), index_seconds=0.05)) as url:
        wait_for(lambda: ask(f"{url}/api/v1/rubric-sets", **bearer())[1]["items"])
        wait_for(lambda: ask(f"{url}/api/v1/{SET}/criteria", **bearer())[1]["items"][0]["graded"] == 12)
        yield Caller(url)


def propose(caller, sample, titles, *, replaces=1, who="runner", **more):
    body = {"rubric": rubric(*titles), "replaces": replaces, "reason": "clearer", **more}
    return caller.post(who, f"{SET}/{sample}/versions", body)


def test_sets_and_their_rubrics_are_listed_by_page(caller):
    (rubric_set,) = caller.get("rubric-sets")["items"]
    assert (rubric_set["run"], rubric_set["stage"], rubric_set["rubrics"]) == ("today-1", "synthesize_rubrics", 3)
    first = caller.get(f"{SET}?limit=2")
    second = caller.get(f"{SET}?limit=2&cursor={first['next_cursor']}")
    assert [item["sample_id"] for item in first["items"] + second["items"]] == ["a", "b", "c"]
    assert second["next_cursor"] is None
    assert (first["items"][0]["criteria"], first["items"][0]["weight"]) == (4, 8.0)


def test_figures_of_criteria_are_those_of_the_credits_and_dead_ones_stand_first(caller):
    figures = {item["criterion"]: item for item in caller.get(f"{SET}/criteria")["items"]}
    assert next(iter(figures)) == NAMES[0]
    assert [figures[name]["state"] for name in NAMES] == ["always", "varies", "varies"]
    assert [figures[name]["rubrics"] for name in (*NAMES, "Is short")] == [3, 3, 3, 1]
    second = [1.0, 0.0, 0.0] * 4  # as `write_run` grades it
    assert figures[NAMES[1]]["pass_rate"] == pytest.approx(statistics.fmean(second))
    assert figures[NAMES[1]]["variance"] == pytest.approx(statistics.pvariance(second))
    assert (figures["Is short"]["state"], figures["Is short"]["pass_rate"]) == ("not graded", None)


def test_a_version_stands_once_another_person_approved_it(caller):
    status, version = propose(caller, "a", [*NAMES, "Is short"])
    assert (status, version["number"], version["state"], version["proposed_by"]) == (201, 2, "proposed", "runner")
    assert caller.get(f"{SET}/a")["standing"] == 1
    number = version["id"]
    assert caller.post("runner", f"rubric-versions/{number}/approve")[0] == 403
    status, version = caller.post("approver", f"rubric-versions/{number}/approve", {"reason": "yes"})
    assert (status, version["state"], version["reviewed_by"]) == (200, "approved", "approver")
    shown = caller.get(f"{SET}/a")
    assert (shown["version"], [criterion["criterion"] for criterion in shown["rubric"]["criteria"]]) == (
        2,
        [*NAMES, "Is short"],
    )
    assert caller.get(f"{SET}?limit=1")["items"][0]["version"] == 2
    difference = {criterion["criterion"]: criterion["change"] for criterion in caller.get(f"{SET}/a/diff")["criteria"]}
    assert difference == dict.fromkeys(NAMES, "same") | {"Is short": "added", "Is <i>long</i>": "removed"}
    assert [item["action"] for item in caller.get("changes?subject=today-1/synthesize_rubrics/a")["items"]] == [
        "rubric.approve",
        "rubric.propose",
    ]
    assert caller.post("approver", f"rubric-versions/{number}/reject")[0] == 409


def test_the_export_has_the_versions_that_stand_in_columns_that_grade_reads(caller):
    status, _, content = exchange(f"{caller.url}/{SET}/export", **bearer())
    rows = pq.read_table(io.BytesIO(content)).to_pylist()
    assert (status, [row["sample_id"] for row in rows]) == (200, ["a", "b", "c"])
    standing = caller.get(f"{SET}/a")["rubric"]
    assert Rubric.model_validate_json(rows[0]["rubric"]) == Rubric.model_validate(standing)


def test_an_admin_who_proposed_a_version_does_not_approve_it(caller):
    number = propose(caller, "b", ["Names all"], who="admin")[1]["id"]
    assert caller.post("admin", f"rubric-versions/{number}/approve")[0] == 403
    assert caller.post("admin", f"rubric-versions/{number}/reject", {"reason": "mine"})[1]["state"] == "rejected"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("patterns", "status"), [(("*",), 403), (("rubrics:other-*/*",), 403), (("m", "rubrics:today-*/synthesize_*"), 200)]
)
def test_proposer_approves_where_the_second_person_is_waived(tmp_path, patterns, status):
    """A pattern of models is none of rubric sets."""
    write_rubrics(write_run(tmp_path))
    settings = ApiSettings(storage=str(tmp_path), token=SecretStr(TOKEN), index_seconds=0.05, self_approval=patterns)
    with served(settings) as url:
        wait_for(lambda: ask(f"{url}/api/v1/rubric-sets", **bearer())[1].get("items"))
        caller = Caller(url)
        number = propose(caller, "a", ["Names all"], who="admin")[1]["id"]
        page = exchange(f"{url}/{SET}/a", **bearer(caller.secret("admin")))[2].decode()
        assert (f'action="/rubric-versions/{number}/approve"' in page) is (status == 200)
        answered, answer = caller.post("admin", f"rubric-versions/{number}/approve")
        assert answered == status
        assert status == 200 or "RUBRICWORKS_SELF_APPROVAL" in answer["detail"]
        log = caller.get("changes?action=rubric.approve")["items"]
        assert [item["details"].get("self_approved") for item in log] == ([True] if status == 200 else [])


def test_of_two_versions_of_one_rubric_that_are_approved_at_once_one_stands(caller):
    numbers = [propose(caller, "c", [f"Names {n}"])[1]["id"] for n in range(2)]
    caller.post("approver-2", "rubric-versions/999/approve")  # makes the token
    with ThreadPoolExecutor(2) as pool:
        answers = pool.map(
            lambda item: caller.post(item[1], f"rubric-versions/{item[0]}/approve")[0],
            zip(numbers, ("approver", "approver-2"), strict=True),
        )
    assert sorted(answers) == [200, 409]
    assert caller.get(f"{SET}/c")["standing"] in (2, 3)
    assert propose(caller, "c", ["Names much"])[0] == 409, "version 1 stands no more"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"rubric": {"criteria": []}}, "body.rubric.criteria"),
        ({"rubric": rubric("x", "x")}, "body.rubric"),
        ({"rubric": {"criteria": [{"criterion": "x", "weight": 0}]}}, "body.rubric.criteria.0.weight"),
        ({"reason": ""}, "body.reason"),
    ],
)
def test_a_rubric_that_does_not_validate_names_the_field(caller, change, field):
    status, answer = propose(caller, "b", ["x"], **change)
    assert (status, answer["fields"][0]["field"]) == (422, field)


def test_what_is_not_there_is_told(caller):
    assert caller.get(f"{SET}/z")["detail"] == "synthesize_rubrics of today-1 has no rubric of sample 'z'"
    assert caller.get(f"{SET}/a?version=9")["detail"] == "the rubric of sample 'a' has no version 9"
    assert "no finished table of rubrics" in caller.get("runs/today-1/rubrics/prepare")["detail"]
    assert propose(caller, "b", [*NAMES, "Is <i>long</i>"])[1]["detail"] == "rubric: nothing is changed"


def test_words_of_two_versions_are_compared(caller):
    before, after = (Rubric.model_validate(rubric("x", rule=rule)) for rule in ("It is a cat .", "It is a big cat ."))
    (change,) = compare(before, after)
    assert [field.pieces for field in change.fields] == [[("same", "It is a "), ("added", "big "), ("same", "cat .")]]


@pytest.fixture(scope="module")
def two_sets(tmp_path_factory):
    """A service with the sets of two runs; a version of one rubric of the first set is approved."""
    folder = tmp_path_factory.mktemp("runs")
    for run, rubrics in {
        "first": {"a": ["x", "y"], "b": ["x"], "c": ["x", "y"], "d": ["x"], "e": ["x"]},
        "second": {"a": ["x", "y"], "b": ["x"], "c": ["y", "<i>z</i>", "v"], "d": ["x"], "f": ["x", "y"]},
    }.items():
        rows = [{"sample_id": sample, "rubric": json.dumps(rubric(*titles))} for sample, titles in rubrics.items()]
        if run == "second":
            rows[3]["rubric"] = json.dumps(rubric("x", rule="Passes if it does not."))
        write_table(write_run(folder, run) / "synthesize_rubrics", "rubrics", [row | {"writer": "w"} for row in rows])
    with served(ApiSettings(storage=str(folder), token=SecretStr(TOKEN), index_seconds=0.05)) as url:
        caller = Caller(url)
        wait_for(lambda: len(caller.get("rubric-sets")["items"]) == 2)
        proposal = {"rubric": rubric("x", "w"), "replaces": 1, "reason": "more"}
        number = caller.post("runner", "runs/first/rubrics/synthesize_rubrics/b/versions", proposal)[1]["id"]
        assert caller.post("approver", f"rubric-versions/{number}/approve")[0] == 200
        yield caller


AFTER, BEFORE = "runs/second/rubrics/synthesize_rubrics", "before_set=first/synthesize_rubrics"


def test_sets_of_two_runs_are_compared_sample_by_sample_with_the_versions_that_stand(two_sets):
    first = two_sets.get(f"{AFTER}/compare?{BEFORE}&limit=4")
    rest = two_sets.get(f"{AFTER}/compare?{BEFORE}&limit=4&cursor={first['next_cursor']}")
    result = [tuple(item.values()) for item in first["items"] + rest["items"]]
    assert result == [  # sample, change, criteria added, removed, changed, same
        ("b", "changed", 0, 1, 0, 1),
        ("c", "changed", 2, 1, 0, 1),
        ("d", "changed", 0, 0, 1, 0),
        ("f", "added", 2, 0, 0, 0),
        ("e", "removed", 0, 1, 0, 0),
        ("a", "same", 0, 0, 0, 2),
    ]
    assert rest["next_cursor"] is None
    assert {item["change"] for item in two_sets.get(f"{AFTER}/compare")["items"]} == {"same"}, "with itself"


def test_one_sample_of_two_sets_is_compared_criterion_by_criterion(two_sets):
    answer = two_sets.get(f"{AFTER}/c/diff?{BEFORE}")
    changes = [(criterion["criterion"], criterion["change"]) for criterion in answer["criteria"]]
    assert changes == [("y", "same"), ("<i>z</i>", "added"), ("v", "added"), ("x", "removed")]
    answer = two_sets.get(f"{AFTER}/b/diff?{BEFORE}")
    assert (answer["before"], answer["after"]) == (2, 1)
    assert two_sets.get(f"{AFTER}/b/diff?{BEFORE}&before=1")["criteria"][0]["change"] == "same"


def test_sets_that_cannot_be_compared_are_told(two_sets):
    assert two_sets.get(f"{AFTER}/compare?before_set=third/x")["detail"].startswith("there is no run 'third'")
    assert "no finished table of rubrics" in two_sets.get(f"{AFTER}/compare?before_set=first/prepare")["detail"]
    assert two_sets.get(f"{AFTER}/compare?before_set=first")["status"] == 422
    assert "has no rubric of sample 'f'" in two_sets.get(f"{AFTER}/f/diff?{BEFORE}")["detail"]


@pytest.mark.parametrize("page", ["", "/compare?" + BEFORE, "/c/diff?" + BEFORE])
def test_pages_of_two_sets_show_them_as_text(two_sets, page):
    status, _, body = exchange(f"{two_sets.pages}/{AFTER}{page}", **bearer())
    assert (status, b"first/synthesize_rubrics" in body, b"<i>z" in body) == (200, True, False)


@pytest.mark.parametrize(
    "page", ["/rubrics", f"/{SET}", f"/{SET}/criteria", f"/{SET}/b", f"/{SET}/b/diff", f"/{SET}/b/edit"]
)
def test_pages_show_rubrics_as_text(caller, page):
    status, _, body = exchange(caller.pages + page, **bearer())
    assert status == 200
    assert b"<i>long" not in body
    assert b"<b>red" not in body


@pytest.mark.parametrize(
    ("change", "field", "mistake"),
    [
        ({"0-weight": ""}, "0-weight", "there is no number; write one such as 2"),
        ({"0-weight": "inf"}, "0-weight", "&#39;inf&#39; is no number; write one such as 2"),
        ({"0-weight": "0"}, "0-weight", "is 0; a criterion adds or"),
        ({"0-criterion": ""}, "0-criterion", "is empty; say what is to be checked, or remove the criterion"),
        ({"0-description": "x" * 4_001}, "0-description", "has 4,001 characters; shorten it to 4,000"),
        ({f"{place}-remove": "on" for place in range(4)}, "rubric", "no criterion is left; a rubric needs"),
        ({"1-criterion": NAMES[0]}, "rubric", "stands 2 times; titles must be unique"),
    ],
)
def test_the_form_says_what_is_wrong_with_a_field_and_what_to_write(caller, change, field, mistake):
    fields = {"replaces": "1", "count": "4", "reason": "because"}
    for place, name in enumerate([*NAMES, "Is <i>long</i>"]):
        fields |= {f"{place}-criterion": name, f"{place}-weight": "2", f"{place}-essential": "on"}
    form = {"Content-Type": "application/x-www-form-urlencoded", **bearer(caller.secret("runner"))}
    body = urlencode(fields | change).encode()
    status, _, page = exchange(f"{caller.pages}/{SET}/b/edit", method="POST", body=body, **form)
    (result,) = re.findall(rf'id="wrong-{field}">([^<]*)<', page.decode())
    assert (status, mistake in result) == (422, True), result


def test_the_form_tells_each_problem_beside_its_field_and_loses_nothing(caller):
    fields = {"replaces": "1", "count": "5", "reason": "because", "4-criterion": "Names <u>it</u>", "4-weight": "much"}
    for place, name in enumerate([*NAMES, "Is <i>long</i>"]):
        fields |= {f"{place}-criterion": name, f"{place}-weight": "2", f"{place}-essential": "on"}
    fields["1-remove"] = "on"
    page = f"{caller.pages}/{SET}/b/edit"
    form = {"Content-Type": "application/x-www-form-urlencoded", **bearer(caller.secret("runner"))}
    status, _, body = exchange(page, method="POST", body=urlencode(fields).encode(), **form)
    assert status == 422
    assert b'id="wrong-4-weight">&#39;much&#39; is no number; write one such as 2, or -1 for a pitfall<' in body
    assert b"Names &lt;u&gt;it&lt;/u&gt;" in body
    fields["4-weight"] = "1.5"
    status, headers, _ = exchange(page, method="POST", body=urlencode(fields).encode(), **form)
    assert (status, headers["location"]) == (303, f"/{SET}/b")
    version = caller.get(f"{SET}/b")["versions"][-1]
    titles = [criterion["criterion"] for criterion in version["rubric"]["criteria"]]
    assert titles == [NAMES[0], NAMES[2], "Is <i>long</i>", "Names <u>it</u>"]
    assert version["rubric"]["criteria"][0]["evaluation_rule"] == ""
