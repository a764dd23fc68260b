"""Hostile requests on every route: names that lead out, SQL in filters, scripts in fields, bodies without an end."""

import asyncio
import contextlib
import hashlib
import http.client
import json
import re
import select
import socket
import sqlite3
import tracemalloc
from urllib.parse import quote, urlencode, urlsplit

import pytest
from pydantic import SecretStr
from served_api import TOKEN, bearer, exchange, served, wait_for_rollouts
from trained_run import STAGE, png, write_run

from rubricworks.platform_api.app import ROUTERS, guarded_routes
from rubricworks.platform_api.pagination import encode_cursor
from rubricworks.platform_api.problems import NotFound
from rubricworks.platform_api.services.runs import read_file
from rubricworks.platform_api.settings import ApiSettings
from rubricworks.runs.store import open_run_store

NAMES = [
    "..",
    ".",
    "%2e%2e",
    "%252e%252e%252f",
    "..%2f..%2f..%2fetc%2fpasswd",
    "..%5c..%5cetc",
    "file:%2f%2f%2fetc%2fpasswd",
    "%00",
    "a%00b",
]
SECRET = b"of another person"
PICTURE = png() + SECRET
GOOD = {
    "run": "today-1",
    "stage": STAGE,
    "step": "1",
    "sample_id": "a",
    "digest": hashlib.sha256(PICTURE).hexdigest(),
    "form": "csv",
}
SQL = ["' OR 1=1 --", '"; DROP TABLE runs; --', "1) UNION SELECT digest FROM tokens --", "%", "\\", "x' AND sleep(9)='"]
SCRIPT = '"></textarea><script>alert(1)</script>'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home") / "runs"
    folder.mkdir()
    return folder


def plant(place):
    """Files beside a run's folder, or beside that of all runs, under the names that a request can make."""
    digest = GOOD["digest"]
    (place / "images" / digest[:2]).mkdir(parents=True)
    (place / "images" / digest[:2] / f"{digest}.png").write_bytes(PICTURE)
    (place / "logs").mkdir()
    (place / "steps.jsonl").write_text(json.dumps({"step": 1, SECRET.decode(): 0}))
    for name in (f"logs/{STAGE}.log", f"{STAGE}.log", "report.html"):
        (place / name).write_bytes(SECRET)


@pytest.fixture(scope="module")
def url(folder):
    write_run(folder)
    for place in (folder, folder.parent, folder.parent / STAGE):
        plant(place)
    with served(ApiSettings(storage=str(folder), token=SecretStr(TOKEN), index_seconds=0.02)) as url:
        wait_for_rollouts(url, **bearer())
        yield url


def placeholders():
    """Every route with a parameter in its path, by method, and the parameter that is hostile."""
    at = 0
    for route in guarded_routes():
        for method in sorted(route.methods):
            for name in re.findall(r"\{(\w+)\}", route.path):
                # Three of the names each, in turn: the same few patterns check the parameters of all routes.
                yield pytest.param(method, route.path, name, NAMES[at % 3 :: 3], id=f"{method} {route.path} {name}")
                at += 1


def outside(folder):
    """Files of the folder of runs, and what lies beside it."""
    stored = {
        path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and "platform.db" not in path.name
    }
    return stored, sorted(path.name for path in folder.parent.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(("method", "path", "hostile", "names"), placeholders())
def test_no_parameter_of_a_path_leads_out(url, folder, method, path, hostile, names):
    before = outside(folder)
    for at, name in enumerate(names):
        filled = re.sub(r"\{(\w+)\}", lambda m, name=name: name if m[1] == hostile else GOOD.get(m[1], "1"), path)
        status, _, body = exchange(
            url + filled, method=method, body={}, **{"Idempotency-Key": f"hostile-{at}"}, **bearer()
        )
        assert status in (200, 303, 400, 404, 405, 409, 422), (filled, status)
        assert b"root:" not in body
        assert b"daemon" not in body
        assert SECRET not in body
    assert outside(folder) == before


@pytest.mark.parametrize(
    ("run", "path"),
    [
        *(("..", "report.html"), (".", "report.html"), ("today-1/..", "report.html"), ("", "report.html")),
        *(("today-1", "../report.html"), ("today-1", f"{STAGE}/../../steps.jsonl"), ("today-1", "/etc/passwd")),
        *(("today-1", "..\\report.html"), ("today-1", "./report.html"), ("today-1", "a\0b")),
    ],
)
def test_a_file_of_a_run_is_read_by_plain_names_alone(url, folder, run, path):
    """The routes hold names to their patterns; this is the check behind them."""
    with pytest.raises(NotFound):
        asyncio.run(read_file(open_run_store(str(folder)), run, path))


def queries():
    """Every GET route of the API and the pages with its query parameters."""
    for route in guarded_routes():
        if "GET" in route.methods:
            for field in route.dependant.query_params + [
                param for part in route.dependant.dependencies for param in part.query_params
            ]:
                yield pytest.param(route.path, field.alias, id=f"{route.path} {field.alias}")


def ask_in_vain(url, folder, path, field, texts):
    """Ask a route with each text in a field; it is no error of the service, and the database stays."""
    place = url + re.sub(r"\{(\w+)\}", lambda match: GOOD.get(match[1], "1"), path)
    for text in texts:
        status, _, body = exchange(f"{place}?{urlencode({field: text})}", **bearer())
        assert status in (200, 303, 404, 409, 422), (place, field, text, status)
        assert b"sqlite" not in body.lower()
    with sqlite3.connect(folder / "platform.db") as database:
        assert database.execute("SELECT count(*) FROM runs").fetchone() == (1,)


@pytest.mark.slow
@pytest.mark.parametrize(("path", "field"), queries())
def test_sql_in_a_parameter_is_text(url, folder, path, field):
    ask_in_vain(url, folder, path, field, SQL)


@pytest.mark.slow
@pytest.mark.parametrize("path", [query.values[0] for query in queries() if query.values[1] == "cursor"])
def test_sql_inside_a_well_formed_cursor_is_text(url, folder, path):
    time = "2026-11-23T02:09:00+00:00"
    places = [
        place
        for text in SQL
        for place in ([text], [1, text], [time, text], [time, text, text], [text, text], [text] * 3)
    ]
    ask_in_vain(url, folder, path, "cursor", [encode_cursor(*place) for place in places])


@pytest.mark.slow
@pytest.mark.parametrize("path", [query.values[0] for query in queries() if query.values[1] == "cursor"])
def test_a_place_that_no_database_can_look_for_is_no_cursor(url, folder, path):
    texts, times = ("\ud800", "a"), ("2026-11-23T02:09:00+00:00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59-14:00")
    places = [
        place for text in texts for time in times for place in ([text], [1, text], [time, text], [time, text, text])
    ]
    ask_in_vain(url, folder, path, "cursor", [encode_cursor(*place) for place in places])


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


def bodies():
    """Every route that may have a body, with its method."""
    routes = [route for router in ROUTERS for route in router.routes]
    for route in routes:
        for method in sorted(route.methods - {"GET", "HEAD"}):
            path = re.sub(r"\{(\w+)\}", lambda match: GOOD.get(match[1], "1"), route.path)
            yield pytest.param(method, path, id=f"{method} {route.path}")


def open_request(url, method, path, headers):
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=300)
    connection.putrequest(method, path)
    for name, value in {"Idempotency-Key": "a-large-body", **headers, **bearer()}.items():
        connection.putheader(name, value)
    connection.endheaders()
    return connection


@pytest.mark.parametrize(("method", "path"), bodies())
def test_a_body_of_100_megabytes_is_refused_by_its_length_alone(url, method, path):
    connection = open_request(url, method, path, {"Content-Length": str(100 << 20)})
    assert connection.getresponse().status == 413
    connection.close()


@pytest.mark.parametrize(("method", "path"), bodies())
def test_a_body_without_a_length_is_not_read_beyond_the_limit(url, method, path):
    connection, sent, chunk = open_request(url, method, path, {"Transfer-Encoding": "chunked"}), 0, b"x" * (1 << 16)
    connection.sock.settimeout(5)
    tracemalloc.start()
    with contextlib.suppress(OSError):  # the service closes the connection, or reads no more
        while sent < 100 << 20:
            connection.sock.sendall(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            sent += len(chunk)
            if select.select([connection.sock], [], [], 0)[0]:
                break
    largest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    connection.close()
    assert sent < 20 << 20, "what the kernel's buffers hold, and the limit"
    assert largest < 20 << 20


def test_half_a_surrogate_pair_in_an_override_is_a_problem_of_its_field(url):
    body = b'{"recipe": "name: quickstart\\n", "overrides": ["policy.algorithm.steps=\\ud800"]}'
    status, _, answer = exchange(f"{url}/api/v1/submissions", method="POST", body=body, **bearer())
    assert (status, json.loads(answer)["fields"][0]["field"]) == (422, "body.overrides.0")


def test_a_caller_who_hangs_up_amid_a_body_leaves_no_traceback(url, caplog):
    connection = open_request(url, "POST", "/login", {"Content-Length": "900"})
    connection.sock.sendall(b"token=")
    connection.close()
    assert exchange(f"{url}/login")[0] == 200
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


def test_a_body_of_two_lengths_is_refused_and_nothing_behind_it_is_a_request(url):
    """A proxy that goes by the other length would take what is behind it for a part of the body (RFC 9112, 6.1)."""
    hidden = "0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    lengths = f"Content-Length: {len(hidden)}\r\nTransfer-Encoding: chunked\r\n\r\n"
    place = urlsplit(url)
    with socket.create_connection((place.hostname, place.port), timeout=300) as connection:
        # In one packet: a connection that is closed with bytes unread is reset, and its answer can be lost.
        connection.sendall(f"POST /login HTTP/1.1\r\nHost: {place.netloc}\r\n{lengths}{hidden}".encode())
        answers = b"".join(iter(lambda: connection.recv(65536), b""))
    assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"400"]


@pytest.mark.parametrize("secret", ["sk-0123456789abcdefghij", "https://me:pa55word@host/x", "?api_key=pa55word0"])
def test_a_secret_in_a_request_is_not_told_again(url, secret):
    body = exchange(f"{url}/api/v1/runs/{quote(secret, safe='')}", **bearer())[2]
    assert secret.encode() not in body
    assert b"pa55word" not in body


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/login/", "/login"),
        ("/login/?next=/runs", "/login?next=/runs"),
        ("/runs/", "/runs"),
        ("/api/v1/runs/?limit=1", "/api/v1/runs?limit=1"),
        ("/static", "/static/"),
    ],
)
def test_a_redirect_leads_to_a_path_whatever_host_was_asked_for(url, path, target):
    headers = {**bearer(), "Host": "evil.example", "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "http"}
    status, answered, _ = exchange(url + path, **headers)
    assert (status, answered["location"]) == (307, target)
