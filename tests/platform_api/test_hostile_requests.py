"""Hostile requests on every route: names that lead out, SQL in filters, scripts in fields, bodies without an end."""

import http.client
import re
import sqlite3
from urllib.parse import quote, urlencode, urlsplit

import pytest
from pydantic import SecretStr
from served_api import TOKEN, bearer, exchange, served, wait_for
from trained_run import STAGE, write_run

from rubricworks.platform_api.app import guarded_routes
from rubricworks.platform_api.settings import ApiSettings

NAMES = [
    "..",
    "%2e%2e",
    "%252e%252e%252f",
    "..%2f..%2f..%2fetc%2fpasswd",
    "..%5c..%5cetc",
    "file:%2f%2f%2fetc%2fpasswd",
]
SQL = ["' OR 1=1 --", '"; DROP TABLE runs; --', "1) UNION SELECT digest FROM tokens --", "%", "\\", "x' AND sleep(9)='"]
SCRIPT = '"></textarea><script>alert(1)</script>'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def url(folder):
    write_run(folder)
    with served(ApiSettings(storage=str(folder), token=SecretStr(TOKEN), index_seconds=0.02)) as url:
        wait_for(lambda: exchange(f"{url}/api/v1/runs/today-1", **bearer())[0] == 200)
        yield url


def placeholders():
    """Every GET route with a parameter, and the parameter that is hostile."""
    for route in guarded_routes():
        if "GET" in route.methods and not route.path.endswith("/events") and "promotions" not in route.path:
            for name in re.findall(r"\{(\w+)\}", route.path):
                yield pytest.param(route.path, name, id=f"{route.path} {name}")


@pytest.mark.parametrize(("path", "hostile"), placeholders())
def test_no_parameter_of_a_path_leads_out(url, path, hostile):
    good = {"run": "today-1", "stage": STAGE, "step": "1", "sample_id": "a", "digest": "0" * 64}
    for name in NAMES:
        filled = re.sub(r"\{(\w+)\}", lambda m, name=name: name if m[1] == hostile else good.get(m[1], "1"), path)
        status, _, body = exchange(url + filled, **bearer())
        assert status in (200, 303, 400, 404, 405, 422), (filled, status)
        assert b"root:" not in body
        if status == 200:  # `..` in a path is the client's to resolve; what is served is another page of ours
            assert b"daemon" not in body


def queries():
    """Every GET route of the API with its text parameters."""
    for route in guarded_routes():
        is_read = route.path.startswith("/api/v1") and "GET" in route.methods and not route.path.endswith("/events")
        if is_read and "promotions" not in route.path:  # those are in test_promotions.py, with a registry
            for field in route.dependant.query_params:
                if "{" not in route.path.replace("{run}", "").replace("{stage}", ""):
                    yield pytest.param(route.path, field.alias, id=f"{route.path} {field.alias}")


@pytest.mark.parametrize(("path", "field"), queries())
def test_sql_in_a_filter_or_a_cursor_is_text(url, folder, path, field):
    place = url + path.replace("{run}", "today-1").replace("{stage}", STAGE)
    for text in SQL:
        status, _, body = exchange(f"{place}?{urlencode({field: text})}", **bearer())
        assert status in (200, 404, 422)
        assert b"sqlite" not in body.lower()
    with sqlite3.connect(folder / "platform.db") as database:
        assert database.execute("SELECT count(*) FROM runs").fetchone() == (1,)


def test_scripts_in_a_form_come_back_as_text(url):
    fields = dict.fromkeys(("recipe", "run", "arm", "overrides", "place"), SCRIPT)
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    status, headers, body = exchange(
        f"{url}/new-run", method="POST", body=urlencode(fields).encode(), **form, **bearer()
    )
    assert status in (409, 422)
    assert b"<script>alert" not in body
    assert b"&lt;script&gt;alert(1)" in body
    assert "script-src" not in headers["content-security-policy"], "the default, this service alone, holds for scripts"


@pytest.mark.parametrize("path", ["/runs?search=", "/runs/", "/new-run?recipe=", "/login?next="])
def test_scripts_in_an_address_come_back_as_text(url, path):
    body = exchange(url + path + quote(SCRIPT), **bearer(), Accept="text/html")[2]
    assert b"<script>alert" not in body


def test_a_body_of_100_megabytes_is_refused_by_its_length_alone(url):
    for path in ("/api/v1/submissions", "/login", "/new-run"):
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
        connection.putrequest("POST", path)
        for name, value in {"Content-Length": str(100 << 20), **bearer()}.items():
            connection.putheader(name, value)
        connection.endheaders()
        assert connection.getresponse().status == 413
        connection.close()


@pytest.mark.parametrize("secret", ["sk-0123456789abcdefghij", "https://me:pa55word@host/x", "?api_key=pa55word0"])
def test_a_secret_in_a_request_is_not_told_again(url, secret):
    body = exchange(f"{url}/api/v1/runs/{quote(secret, safe='')}", **bearer())[2]
    assert secret.encode() not in body
    assert b"pa55word" not in body
