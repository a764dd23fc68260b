"""Projects: each installation is one, with its own callers, database, budget and quotas."""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr
from served_api import TOKEN, ask, bearer, exchange, served, wait_for
from test_submissions import stand_in as stand_in
from test_submissions import submit
from trained_run import STAGE, write_run

from rubricworks.errors import UserError
from rubricworks.llm.spending import SPENDING_FILE, merge_spending
from rubricworks.platform_api import access
from rubricworks.platform_api.app import guarded_routes
from rubricworks.platform_api.project import Project, ProjectBudget, Quotas
from rubricworks.platform_api.readiness import refuse_other_project
from rubricworks.platform_api.services import project_use
from rubricworks.platform_api.services.access.principals import SCOPES
from rubricworks.platform_api.settings import ApiSettings

OTHER_TOKEN = "t0ken-of-another-project-0123456789"


def settings(runs: Path, name: str = "captions", token: str = TOKEN, **project) -> ApiSettings:
    return ApiSettings(
        storage=str(runs),
        token=SecretStr(token),
        index_seconds=0.05,
        local_runs=True,
        project=Project(name=name, **project),
    )


@pytest.fixture(scope="module")
def two_projects(tmp_path_factory):
    """URLs of two projects' services, and each one's tokens by scope."""
    folders = tmp_path_factory.mktemp("captions"), tmp_path_factory.mktemp("images")
    write_run(folders[0])
    with (
        pytest.MonkeyPatch.context() as patch,
        served(settings(folders[0])) as captions,
        served(settings(folders[1], "images", OTHER_TOKEN)) as images,
    ):
        patch.setattr(access, "_REFUSALS_A_MINUTE", 100_000)
        secrets = {}
        for url, own in ((captions, TOKEN), (images, OTHER_TOKEN)):
            for scope in SCOPES:
                body = {"name": f"a-{scope}", "scope": scope}
                made = ask(f"{url}/api/v1/tokens", method="POST", body=body, **bearer(own))[1]
                secrets[url, scope] = made["secret"]
        yield captions, images, secrets


@pytest.mark.slow
@pytest.mark.parametrize("scope", [*SCOPES, "environment"])
@pytest.mark.parametrize("route", guarded_routes(), ids=lambda route: f"{min(route.methods)} {route.path}")
def test_no_role_of_another_project_has_any_right_on_any_route(two_projects, route, scope):
    captions, images, secrets = two_projects
    values = {"run": "today-1", "stage": STAGE, "step": "1", "sample_id": "a", "name": "nobody", "digest": "0" * 64}
    values |= {"number": "999", "form": "csv", "person": "x@y"}
    path = re.sub(r"\{(\w+)\}", lambda match: values[match[1]], route.path)
    secret = OTHER_TOKEN if scope == "environment" else secrets[images, scope]
    headers = {"Idempotency-Key": "of-the-other-project"} | bearer(secret)
    status, _, content = exchange(captions + path, method=min(route.methods), body={}, **headers)
    assert (status, b"or of another project than captions" in content) == (401, True)


def test_a_run_of_one_project_is_not_seen_in_another(two_projects):
    captions, images, secrets = two_projects
    wait_for(lambda: ask(f"{captions}/api/v1/runs/today-1", **bearer(secrets[captions, "viewer"]))[0] == 200)
    assert ask(f"{images}/api/v1/runs/today-1", **bearer(secrets[images, "admin"]))[0] == 404
    assert ask(f"{images}/api/v1/runs", **bearer(secrets[images, "admin"]))[1]["items"] == []


def test_a_database_serves_the_project_that_made_it_and_no_other(tmp_path):
    with served(settings(tmp_path)) as url:
        assert ask(f"{url}/api/v1/caller", **bearer())[1]["project"] == "captions"
    with served(settings(tmp_path)):
        pass
    for other in (settings(tmp_path, "images"), settings(tmp_path).model_copy(update={"project": None})):
        with pytest.raises(UserError, match="the database belongs to the project captions"):
            asyncio.run(refuse_other_project(other))


def spend(run: Path, dollars: float) -> None:
    counters = dict.fromkeys(
        ("cached", "requests", "prompt_tokens", "completion_tokens", "seconds", "cached_tokens"), 0
    )
    row = {"stage": STAGE, "purpose": "judge", "model": "m", "calls": 1, "cost": dollars, "errors": {}, **counters}
    merge_spending(run / SPENDING_FILE, [row])


def use(url):
    return ask(f"{url}/api/v1/project", **bearer())[1]


def test_a_budget_that_is_spent_refuses_the_next_run_and_the_page_tells_who_spent_it(stand_in):
    with served(settings(stand_in, budget=ProjectBudget(dollars_a_month=5))) as url:
        assert submit(url, "first")[0] == 201
        wait_for((stand_in / "first" / "recipe.yaml").is_file)
        assert use(url)["runs_going"] == 1
        spend(stand_in / "first", 4.5)
        spend(write_run(stand_in, "in-a-terminal"), 0.75)
        wait_for(lambda: use(url)["dollars"] == 5.25)
        (stand_in / "first" / "end").touch()
        wait_for(lambda: ask(f"{url}/api/v1/submissions/first", **bearer())[1]["state"] == "ended")
        status, body = submit(url, "second")
        assert (status, "has spent $5.25 of its $5.00" in body["detail"]) == (409, True)
        assert ask(f"{url}/api/v1/submissions/second", **bearer())[0] == 404
        spenders = [(spender["submitted_by"], spender["dollars"]) for spender in use(url)["spenders"]]
        assert spenders == [("environment", 4.5), ("", 0.75)]
        page = exchange(f"{url}/project", **bearer())[2].decode()
        assert "environment" in page
        assert "$5.25" in page


def test_what_was_spent_in_an_earlier_month_counts_no_more(tmp_path, monkeypatch):
    spend(write_run(tmp_path, "old"), 3.0)
    with served(settings(tmp_path)) as url:
        wait_for(lambda: use(url)["dollars"] == 3.0)
        monkeypatch.setattr(project_use, "utc_now", lambda: datetime.now().astimezone() + timedelta(days=32))
        assert (use(url)["dollars"], use(url)["runs"]) == (0.0, 1)


def test_a_quota_of_storage_that_is_used_up_refuses_the_next_run(stand_in):
    write_run(stand_in, "large")
    with served(settings(stand_in, quotas=Quotas(gigabytes=1e-6))) as url:
        wait_for(lambda: use(url)["gigabytes"] > 1e-6)
        status, body = submit(url, "next")
    assert (status, "rubricworks runs prune" in body["detail"]) == (409, True)


def test_no_more_runs_go_at_once_than_the_quota_has(stand_in):
    with served(settings(stand_in, quotas=Quotas(runs_at_once=1))) as url:
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda number: submit(url, f"run-{number}"), range(4)))
        assert sorted(status for status, _ in answers) == [201, 409, 409, 409]
        refused = [body["detail"] for status, body in answers if status == 409]
        assert all("runs of the project captions are going, and 1 may" in detail for detail in refused), refused
