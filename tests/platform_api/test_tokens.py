"""Tokens, their rights on every route, sessions of browsers, and the log of changes."""

import html
import http.client
import json
import re
import sqlite3
from urllib.parse import urlencode

import pytest
from pydantic import SecretStr
from served_api import TOKEN, ask, bearer, exchange, followed, served
from trained_run import STAGE, write_run

from rubricworks.cli import main
from rubricworks.platform_api.app import create_app, guarded_routes
from rubricworks.platform_api.routers import probes
from rubricworks.platform_api.routers import runs as runs_router
from rubricworks.platform_api.services.access import audit_log
from rubricworks.platform_api.services.access.principals import SCOPES
from rubricworks.platform_api.settings import ApiSettings
from rubricworks.runs.folder_lock import lock_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def url(folder):
    write_run(folder)
    with served(ApiSettings(storage=str(folder), token=SecretStr(TOKEN), index_seconds=0.05)) as url:
        yield url


@pytest.fixture(scope="module")
def secrets(url):
    made = {
        scope: ask(f"{url}/api/v1/tokens", method="POST", body={"name": f"a-{scope}", "scope": scope}, **bearer())
        for scope in SCOPES
    }
    assert {status for status, _ in made.values()} == {201}
    return {scope: body["secret"] for scope, (_, body) in made.items()}


def right_of(route):
    rights = [dependency.call.right for dependency in route.dependant.dependencies if hasattr(dependency.call, "right")]
    return rights[-1]  # after that of the router


@pytest.mark.slow
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("route", guarded_routes(), ids=lambda route: f"{min(route.methods)} {route.path}")
def test_every_route_lets_those_through_that_have_its_right(url, secrets, route, scope):
    values = {"run": "today-1", "stage": STAGE, "step": "1", "sample_id": "a", "name": "nobody", "digest": "0" * 64}
    values |= {"number": "999", "form": "csv", "person": "x@y"}
    path = re.sub(r"\{(\w+)\}", lambda match: values[match[1]], route.path)
    if path.endswith("/logout"):
        return  # the same for everybody, see below
    key = re.sub(r"\W+", "-", f"{min(route.methods)}{route.path}")
    headers = {"Idempotency-Key": key} | bearer(secrets[scope])
    status, _, _ = exchange(url + path, method=min(route.methods), body={}, **headers)
    assert (status == 403) == (right_of(route) not in SCOPES[scope])
    assert status not in (401, 500)


@pytest.mark.parametrize(("router", "method"), [(probes.router, "GET"), (runs_router.router, "POST")])
def test_a_route_without_a_right_keeps_the_application_from_starting(router, method):
    async def everything() -> str:
        return "everything"

    before = list(router.routes)
    router.add_api_route("/everything", everything, methods=[method])
    try:
        with pytest.raises(RuntimeError, match="names no right"):
            create_app(ApiSettings())
    finally:
        router.routes[:] = before


def test_a_revoked_token_and_its_sessions_end_at_once_and_both_changes_are_logged(url):
    secret = ask(f"{url}/api/v1/tokens", method="POST", body={"name": "brief", "scope": "viewer"}, **bearer())[1][
        "secret"
    ]
    cookie = log_in(url, secret)
    assert ask(f"{url}/api/v1/caller", **bearer(secret)) == (
        200,
        {"name": "brief", "scope": "viewer", "project": None},
    )
    assert exchange(f"{url}/api/v1/caller", Cookie=cookie)[0] == 200
    for _ in range(2):
        assert ask(f"{url}/api/v1/tokens/brief", method="DELETE", **bearer())[1]["revoked_at"]
    assert exchange(f"{url}/api/v1/caller", **bearer(secret))[0] == 401
    assert exchange(f"{url}/api/v1/caller", Cookie=cookie)[0] == 401
    changes = ask(f"{url}/api/v1/changes?subject=brief", **bearer())[1]["items"]
    assert [(change["action"], change["who"]) for change in changes] == [
        ("token.revoke", "environment"),
        ("token.create", "environment"),
    ]


@pytest.mark.parametrize("path", ["events", f"stages/{STAGE}/log/events"])
def test_a_stream_ends_with_its_token(url, folder, path, monkeypatch):
    monkeypatch.setattr(runs_router, "_SECONDS", 0.02)
    name = f"follower-{len(path)}"
    secret = ask(f"{url}/api/v1/tokens", method="POST", body={"name": name, "scope": "viewer"}, **bearer())[1]["secret"]
    run = write_run(folder, name)
    with lock_folder(run), followed(url, f"{name}/{path}", secret) as stream:
        assert ask(f"{url}/api/v1/tokens/{name}", method="DELETE", **bearer())[0] == 200
        with (run / "logs" / f"{STAGE}.log").open("a") as log:
            log.write("what comes after the revocation\n")
        assert b"after the revocation" not in stream.read()


def test_a_token_that_expired_is_none(url, folder, secrets):
    with sqlite3.connect(folder / "platform.db") as database:
        database.execute("UPDATE tokens SET expires_at = '2020-01-01 00:00:00.000000' WHERE name = 'a-runner'")
    assert exchange(f"{url}/api/v1/caller", **bearer(secrets["runner"]))[0] == 401
    with sqlite3.connect(folder / "platform.db") as database:
        database.execute("UPDATE tokens SET expires_at = '2999-01-01 00:00:00.000000' WHERE name = 'a-runner'")


def test_the_database_has_no_secret(folder, secrets):
    content = b"".join(path.read_bytes() for path in folder.glob("platform.db*"))
    assert not any(secret.encode() in content for secret in secrets.values())


def test_a_name_is_taken_for_ever(url, secrets):
    status, body = ask(f"{url}/api/v1/tokens", method="POST", body={"name": "a-viewer", "scope": "admin"}, **bearer())
    assert (status, "names are never used again" in body["detail"]) == (409, True)


@pytest.mark.parametrize("name", ["environment", "Local", "service", "run:nightly:0", "x" * 101, "a\n"])
def test_a_name_that_the_service_has_for_others_or_none_can_have_is_refused(url, folder, name, capsys):
    status, body = ask(f"{url}/api/v1/tokens", method="POST", body={"name": name, "scope": "runner"}, **bearer())
    assert (status, "name" in body["detail"]) == (422, True)
    with pytest.raises(SystemExit) as end:
        main(["tokens", "create", name, "--scope", "runner", "--runs", str(folder)])
    assert (end.value.code, "name" in capsys.readouterr().err) == (2, True)


@pytest.mark.parametrize(
    "body",
    [
        *({}, {"name": "x"}, {"name": "x", "scope": "root"}, {"name": "../x", "scope": "viewer"}),
        *({"name": "x", "scope": "viewer", "days": 0}, {"name": "x", "scope": "viewer", "more": 1}, [], b"{"),
    ],
)
def test_a_request_that_does_not_validate_names_each_field(url, body):
    status, answer = ask(f"{url}/api/v1/tokens", method="POST", body=body, **bearer())
    assert status == 422
    assert answer["fields"]


def log_in(url, secret):
    status, headers, _ = exchange(
        f"{url}/login",
        method="POST",
        body=f"token={secret}&next=//evil.example".encode(),
        **{"Content-Type": "application/x-www-form-urlencoded"},
    )
    assert (status, headers["location"]) == (303, "/")
    assert "HttpOnly" in headers["set-cookie"]
    assert "SameSite=strict" in headers["set-cookie"]
    return headers["set-cookie"].partition(";")[0]


def test_a_browser_is_led_to_the_login_and_out_again(url, secrets):
    status, headers, _ = exchange(f"{url}/runs", Accept="text/html")
    assert (status, headers["location"]) == (303, "/login?next=/runs")
    cookie = log_in(url, secrets["viewer"])
    assert b"today-1" in exchange(f"{url}/runs", Accept="text/html", Cookie=cookie)[2]
    assert exchange(f"{url}/tokens", Cookie=cookie)[0] == 403
    assert exchange(f"{url}/logout", method="POST", Cookie=cookie)[0] == 303
    assert exchange(f"{url}/runs", Accept="text/html", Cookie=cookie)[1]["location"] == "/login?next=/runs"


@pytest.mark.parametrize(
    ("asked", "led_to"),
    [
        ("/runs?state=failed&search=a%26b", "/runs?state=failed&search=a%26b"),
        ("/runs?cursor=" + "x" * 2_000, "/runs"),
        ("/runs%3Fx=1", "/runs%3Fx%3D1"),
        ("//evil.example/?x", "/"),
        ("/%5Cevil.example?x", "/%5Cevil.example?x"),
        ("/runs?x=%0d%0aSet-Cookie:a", "/runs?x=%0d%0aSet-Cookie:a"),
    ],
)
def test_a_login_leads_to_the_page_that_was_asked_for_with_its_query(url, secrets, asked, led_to):
    login = exchange(f"{url}{asked}", Accept="text/html")[1]["location"]
    status, _, page = exchange(f"{url}{login}", Accept="text/html")
    (target,) = re.findall(r'name="next" value="(.*?)"', page.decode())
    form = urlencode({"token": secrets["viewer"], "next": html.unescape(target)}).encode()
    head = {"Content-Type": "application/x-www-form-urlencoded", "Idempotency-Key": "return-to-page"}
    _, headers, _ = exchange(f"{url}/login", method="POST", body=form, **head)
    assert (status, headers["location"]) == (200, led_to)


@pytest.mark.parametrize(
    ("secret", "words"), [(TOKEN, "This is RUBRICWORKS_API_TOKEN"), ("wrong", "unknown"), ("\udcff", "unknown")]
)
def test_a_login_that_is_refused_is_told_the_reason(url, secret, words):
    form = urlencode({"token": secret}, errors="surrogatepass").encode()
    head = {"Content-Type": "application/x-www-form-urlencoded", "Idempotency-Key": "refused-login"}
    status, headers, page = exchange(f"{url}/login", method="POST", body=form, **head)
    assert (status, words in page.decode(), headers.get("set-cookie")) == (401, True, None)
    assert exchange(f"{url}/api/v1/caller", **bearer())[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
    ],
)
def test_a_page_of_another_site_changes_nothing(url, headers):
    status, body = ask(f"{url}/api/v1/tokens/a-viewer", method="DELETE", **headers, **bearer())
    assert (status, "another site" in body["detail"]) == (403, True)


@pytest.fixture(scope="module")
def session(url):
    """The cookie of a browser, as `name=value`."""
    made = ask(f"{url}/api/v1/tokens", method="POST", body={"name": "browsing", "scope": "viewer"}, **bearer())
    form = urlencode({"token": made[1]["secret"]}).encode()
    head = {"Content-Type": "application/x-www-form-urlencoded", "Idempotency-Key": "beside-other-cookies"}
    return exchange(f"{url}/login", method="POST", body=form, **head)[1]["set-cookie"].partition(";")[0]


@pytest.mark.parametrize(
    "lines",
    [
        ["path=/x; {}"],
        ["foo; {}"],
        ["{}; foo"],
        ['prefs={{"theme":"dark","list":[1,2]}}; {}'],
        ["name=J\xfcrgen; {}", ""],
        ["=; ;; =x; a=b=c; {}"],
        ["version=1; $Path=/; expires=never; secure; httponly; {}"],
        ["other=1", "{}"],
        ["{}", "other=1"],
        ["rubricworks_session=of-the-domain-above; {}"],
        ["{}; rubricworks_session=of-the-domain-above"],
        ['rubricworks_session=""; {};'],
    ],
)
def test_cookies_of_other_applications_log_nobody_out(url, session, lines):
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=300)
    connection.putrequest("GET", "/api/v1/caller")
    for line in lines:
        connection.putheader("Cookie", line.format(session).encode("latin-1"))
    connection.endheaders()
    answer = connection.getresponse()
    body = json.load(answer)
    connection.close()
    assert (answer.status, body.get("name")) == (200, "browsing"), body


@pytest.mark.parametrize("cookie", ["x={}", "rubricworks_sessions={}", "x=rubricworks_session={}", "{}"])
def test_the_session_is_the_value_of_its_own_cookie_only(url, session, cookie):
    answer = exchange(f"{url}/api/v1/caller", Cookie=cookie.format(session.partition("=")[2]))
    assert answer[0] == 401


def test_a_large_body_is_refused_before_it_is_read(url):
    assert ask(f"{url}/api/v1/tokens", method="POST", body=b"x" * 3_000_000, **bearer())[0] == 413


def test_tokens_of_the_command_line_work_on_the_server(url, folder, capsys):
    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            main(["tokens", *arguments, "--runs", str(folder)])
        return end.value.code, capsys.readouterr()

    _, printed = run("create", "made-here", "--scope", "viewer")
    secret = printed.out.strip()
    assert ask(f"{url}/api/v1/caller", **bearer(secret))[1]["name"] == "made-here"
    assert run("revoke", "made-here")[0] == 0
    assert exchange(f"{url}/api/v1/caller", **bearer(secret))[0] == 401
    assert "made-here" in run("list")[1].out
    code, printed = run("revoke", "nobody")
    assert (code, "there is no token named 'nobody'" in printed.err) == (2, True)


def test_the_audit_log_is_exported_whole_and_from_where_the_last_export_ended(url, monkeypatch):
    monkeypatch.setattr(audit_log, "_EXPORTED_AT_ONCE", 3)
    for number in range(7):
        made = {"name": f"exported-{number}", "scope": "viewer"}
        assert ask(f"{url}/api/v1/tokens", method="POST", body=made, **bearer())[0] == 201

    def export(after):
        status, headers, content = exchange(f"{url}/api/v1/changes/export?after={after}", **bearer())
        assert (status, headers["content-type"]) == (200, "application/x-ndjson")
        return [json.loads(line) for line in content.decode().splitlines()]

    whole = export(0)
    listed = ask(f"{url}/api/v1/changes?limit=200", **bearer())[1]["items"]
    assert whole == listed[::-1]
    assert [change["subject"] for change in whole[-7:]] == [f"exported-{number}" for number in range(7)]
    assert export(whole[-3]["id"]) == whole[-2:]
