"""Every list of the API comes by page, cursor in, `next_cursor` out; one without fails here, or gives its reason."""

import pytest
from pydantic import SecretStr
from served_api import TOKEN, Caller, ask, bearer, served, wait_for_rollouts
from stored_audit import write_audit
from trained_run import STAGE, write_run

from rubricworks.platform_api.app import create_app
from rubricworks.platform_api.settings import ApiSettings

WHOLE = {
    "/project": "who submitted a run this month",
    "/runs/{run}": "stages of a run's recipe",
    "/comparison": "runs that the caller chose",
    "/runs/{run}/notes": "tags of one run",
    "/runs/{run}/curves": "curves, whose points a chart needs whole",
    "/runs/{run}/stages/{stage}/steps": "its cursor is the step: `after`",
    "/runs/{run}/stages/{stage}/groups/{step}/{sample_id}": "rollouts of one group",
    "/runs/{run}/stages/{stage}/groups/{step}/{sample_id}/exchange": "calls about one response",
    "/runs/{run}/rubrics/{stage}/{sample_id}": "versions of one rubric",
    "/runs/{run}/rubrics/{stage}/{sample_id}/diff": "criteria of two versions of one rubric",
    "/kubeflow/runs/{run}": "tasks of a pipeline",
    "/submissions/{run}": "changes that one recipe was submitted with",
    "/runs/{run}/stages/{stage}/signals": "curves, whose points a chart needs whole",
    "/runs/{run}/stages/{stage}/audit": "patterns of an audit, a fixed set",
    "/runs/{run}/budget": "stages of a run's recipe",
    "/runs/{run}/stages/{stage}/agreement": "figures by rater and model",
    "/runs/{run}/preferences/models": "standings of a run's models",
    "/leaderboard": "a table of the models of runs that the caller chose",
    "/promotions/{number}": "rules of a gate",
    "/readyz": "differences that `/drift` has by page",
}
"""Answers with a list that does not grow with use → why it is whole."""


def lists():
    """Path → parameters and fields of each answer that holds a list."""
    api = create_app().openapi()
    for path, methods in api["paths"].items():
        content = methods.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
        schema = content.get("application/json", {}).get("schema", {})
        if "$ref" in schema:
            schema = api["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        fields = schema.get("properties", {})
        kinds = [kind for field in fields.values() for kind in (field, *field.get("anyOf", []))]
        if any(kind.get("type") == "array" for kind in (schema, *kinds)):
            yield path.removeprefix("/api/v1"), {item["name"] for item in methods["get"].get("parameters", [])}, fields


@pytest.mark.slow
def test_every_list_that_may_grow_has_a_cursor():
    result = {path: (parameters, fields) for path, parameters, fields in lists()}
    assert set(WHOLE) <= set(result), "a reason for a list that is there no more"
    for path, (parameters, fields) in result.items():
        if path not in WHOLE:
            assert {"cursor", "limit"} <= parameters, f"{path} takes no cursor, and says not why"
            assert {"items", "next_cursor"} <= set(fields), path


@pytest.fixture(scope="module")
def caller(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    run = write_run(folder)
    for stage in ("audit", "audit_late", "audit_more"):
        write_audit(run / stage)
    settings = ApiSettings(storage=str(folder), token=SecretStr(TOKEN), index_seconds=0.05)
    with served(settings) as url:
        wait_for_rollouts(url, **bearer())
        caller = Caller(url)
        for who in ("viewer-1", "viewer-2", "viewer-3"):
            caller.secret(who)
        yield caller


@pytest.mark.parametrize(
    ("path", "field", "count"),
    [
        ("tokens", "name", 3),
        ("runs/today-1/audits", "stage", 3),
        (f"runs/today-1/stages/{STAGE}/criteria", "criterion", 3),
    ],
)
def test_pages_are_the_whole_list(caller, path, field, count):
    whole = [item[field] for item in caller.get(path)["items"]]
    assert len(set(whole)) == count
    seen, cursor = [], ""
    while cursor is not None:
        page = caller.get(f"{path}?limit=2{cursor and f'&cursor={cursor}'}")
        seen += [item[field] for item in page["items"]]
        cursor = page["next_cursor"]
    assert seen == whole
    status, body = ask(f"{caller.url}/{path}?cursor=eA", **bearer())
    assert (status, "not one that this list gave" in body["detail"]) == (422, True)
