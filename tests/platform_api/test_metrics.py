"""Figures for Prometheus: answers by route, of which no caller makes more, and uses of the break-glass token."""

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr
from served_api import TOKEN, bearer, exchange, served

from rubricworks.platform_api.settings import ApiSettings


def figures(url):
    """Name and labels → value."""
    status, headers, content = exchange(f"{url}/metrics", **bearer())
    assert (status, headers["content-type"].partition(";")[0]) == (200, "text/plain")
    samples = [sample for family in text_string_to_metric_families(content.decode()) for sample in family.samples]
    return {(sample.name, *sorted(sample.labels.items())): sample.value for sample in samples}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with served(ApiSettings(storage=str(tmp_path_factory.mktemp("runs")), token=SecretStr(TOKEN))) as url:
        yield url


def answers(url, route, method, status):
    key = ("rubricworks_http_request_seconds_count", ("method", method), ("route", route), ("status", str(status)))
    return figures(url).get(key, 0.0)


def test_answers_are_counted_by_the_routes_template_and_not_by_what_is_asked_for(url):
    before = answers(url, "/api/v1/runs/{run}", "GET", 404)
    for run in ("a", "b"):
        assert exchange(f"{url}/api/v1/runs/{run}", **bearer())[0] == 404
    assert answers(url, "/api/v1/runs/{run}", "GET", 404) == before + 2


def test_paths_and_methods_of_a_caller_make_no_figures_of_their_own(url):
    exchange(f"{url}/no/such/path", **bearer())
    exchange(f"{url}/runs", method="BREW", **bearer())
    names = {key for key in figures(url) if key[0] == "rubricworks_http_request_seconds_count"}
    assert "BREW" not in str(names)
    assert "/no/such" not in str(names)
    assert answers(url, "other", "GET", 404) >= 1


def test_an_installation_without_a_project_has_no_bounds_and_no_broken_glass(url):
    known = figures(url)
    assert not [
        key for key in known if key[0] in ("rubricworks_project_budget_dollars", "rubricworks_project_runs_at_once")
    ]
    assert known[("rubricworks_break_glass_total",)] == 0
    assert known[("rubricworks_project_dollars",)] == 0
