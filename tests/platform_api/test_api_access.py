"""Access to the service, over real HTTP."""

import pytest
from pydantic import SecretStr
from served_api import TOKEN, ask, bearer, exchange, served

from rubricworks import __version__
from rubricworks.platform_api.access import binds_to_loopback, is_local
from rubricworks.platform_api.settings import ApiSettings

WITH_TOKEN = ApiSettings(token=SecretStr(TOKEN), revision="abc123")


@pytest.fixture(scope="module")
def url():
    with served(WITH_TOKEN) as url:
        yield url


@pytest.fixture(scope="module")
def open_url():
    with served(ApiSettings()) as url:
        yield url


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_need_no_token(url, path):
    assert ask(url + path)[0] == 200


NEEDED = "a token is needed: send `Authorization: Bearer <RUBRICWORKS_API_TOKEN>`"
WRONG = "the token is unknown, revoked or expired; an admin makes a new one: `rubricworks tokens create NAME`"


@pytest.mark.parametrize(
    ("headers", "detail"),
    [
        ({}, NEEDED),
        (bearer("t0ken-of-the-tests-012345678"), WRONG),
        (bearer(TOKEN + "0"), WRONG),
        (bearer("ÿ" * 20), WRONG),
        (bearer("rw_0123456789"), WRONG),
        ({"Authorization": TOKEN}, NEEDED),
        ({"Authorization": f"Basic {TOKEN}"}, NEEDED),
        ({"Authorization": "Bearer"}, NEEDED),
    ],
)
@pytest.mark.parametrize(
    "path", ["/version", "/openapi.json", "/runs", "/api/v1/runs", "/healthz/", "//healthz", "/login/../runs"]
)
def test_everything_else_asks_for_the_token_even_on_loopback(url, path, headers, detail):
    status, body = ask(url + path, **headers)
    assert (status, body["detail"]) == (401, detail)


@pytest.mark.parametrize("kind", ["Bearer", "bearer"])
def test_version_tells_what_runs(url, kind):
    answer = ask(url + "/version", Authorization=f"{kind} {TOKEN}")
    assert answer == (200, {"name": "rubricworks", "version": __version__, "revision": "abc123"})


def test_a_path_that_is_not_there_and_a_wrong_method_have_the_same_form(url):
    missing = {"type": "about:blank", "title": "Not Found", "status": 404, "detail": "there is no /run"}
    assert ask(url + "/run", **bearer()) == (404, missing)
    assert ask(url + "/version", method="POST", **bearer())[1]["title"] == "Method Not Allowed"
    assert exchange(url + "/api/v1/tokens", method="PATCH", **bearer())[1]["allow"] == "GET, HEAD, POST"


def test_without_a_token_programs_of_this_machine_may_call(open_url):
    assert ask(open_url + "/version")[0] == 200
    assert ask(open_url + "/version", Host="localhost:1234")[0] == 200
    assert ask(open_url + "/version", Host="[::1]:1234")[0] == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.7", "", "[", "::1"]
)
def test_without_a_token_a_page_whose_name_resolves_to_loopback_may_not(open_url, host):
    status, body = ask(open_url + "/version", Host=host)
    assert status == 401
    assert "set RUBRICWORKS_API_TOKEN" in body["detail"]


@pytest.mark.parametrize("server", [("10.0.0.7", 8080), ("fd00::7", 8080), ("/run/api.sock", None), None])
def test_without_a_token_no_other_address_of_the_machine_is_served(server):
    assert not is_local({"server": server}, {"host": "localhost"})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1", "localhost"])
def test_addresses_that_no_other_machine_can_reach(host):
    assert binds_to_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", ""])
def test_addresses_that_others_can_reach(host):
    assert not binds_to_loopback(host)


@pytest.mark.parametrize("header", ["Forwarded", "X-Forwarded-For", "X-Real-IP"])
def test_without_a_token_nothing_that_a_proxy_passes_on_is_answered(open_url, url, header):
    for accept in ("*/*", "text/html"):
        status, body = ask(open_url + "/version", Accept=accept, **{header: "192.0.2.1"})
        assert (status, "a proxy passed this request on" in body["detail"]) == (401, True)
    assert ask(url + "/version", **{header: "192.0.2.1"}, **bearer())[0] == 200


def test_while_the_database_is_away_its_tokens_and_sessions_are_told_to_try_again():
    away = ApiSettings(token=SecretStr(TOKEN), database=SecretStr("postgresql+psycopg://u:p@127.0.0.1:1/x"))
    with served(away) as url:
        for headers in (bearer("rw_" + "x" * 40), {"Cookie": "rubricworks_session=x"}):
            status, answered, content = exchange(url + "/api/v1/caller", **headers)
            assert (status, answered["retry-after"], answered["content-type"]) == (503, "2", "application/problem+json")
            assert b"the database does not answer" in content
        page = exchange(url + "/runs", Accept="text/html", Cookie="rubricworks_session=x")
        assert (page[0], page[1]["content-type"]) == (503, "text/html; charset=utf-8")
        assert ask(url + "/version", **bearer())[0] == 200


def wrong_login(url):
    head = {"Content-Type": "application/x-www-form-urlencoded"}
    return exchange(f"{url}/login", method="POST", body=b"token=rw_wrong", **head)


def test_wrong_logins_and_wrong_tokens_of_an_address_are_counted_together():
    with served(WITH_TOKEN) as url:
        assert {wrong_login(url)[0] for _ in range(59)} == {401}
        assert ask(url + "/version", **bearer("wrong"))[0] == 401
        status, headers, content = wrong_login(url)
        assert (status, 1 <= int(headers["retry-after"]) <= 60) == (429, True)
        assert b"too many requests with a wrong token" in content
        assert ask(url + "/version", **bearer())[0] == 200
        made = ask(f"{url}/api/v1/tokens", method="POST", body={"name": "one", "scope": "viewer"}, **bearer())
        login = f"token={made[1]['secret']}".encode()
        assert exchange(f"{url}/login", method="POST", body=login)[0] == 303


def test_requests_of_a_caller_above_the_limit_wait_for_the_next_minute():
    with served(WITH_TOKEN.model_copy(update={"requests_a_minute": 5})) as url:
        made = ask(f"{url}/api/v1/tokens", method="POST", body={"name": "one", "scope": "viewer"}, **bearer())
        item = bearer(made[1]["secret"])
        assert [ask(url + "/version", **item)[0] for _ in range(5)] == [200] * 5
        status, headers, content = exchange(url + "/version", **item)
        assert (status, 1 <= int(headers["retry-after"]) <= 60) == (429, True)
        assert b"one made more than 5 requests in a minute" in content
        for path in ("/healthz", "/readyz", "/static/report.css"):
            assert exchange(url + path, **item)[0] == 200
        assert ask(url + "/version", **bearer())[0] == 200, "another token has a minute of its own"
        assert [ask(url + "/version")[0] for _ in range(6)] == [401] * 5 + [429]


def test_programs_of_this_machine_have_no_limit():
    with served(ApiSettings(requests_a_minute=1)) as url:
        assert {ask(url + "/version")[0] for _ in range(5)} == {200}


@pytest.mark.parametrize(("public_url", "is_secure"), [(None, False), ("https://platform.example.org", True)])
def test_a_session_behind_tls_that_ends_elsewhere_has_a_secure_cookie(public_url, is_secure):
    with served(WITH_TOKEN.model_copy(update={"public_url": public_url})) as url:
        made = ask(f"{url}/api/v1/tokens", method="POST", body={"name": "one", "scope": "viewer"}, **bearer())
        answer = exchange(f"{url}/login", method="POST", body=f"token={made[1]['secret']}".encode())
        assert ("Secure" in answer[1]["set-cookie"]) == is_secure


def login_statuses(public_url, *browsers):
    """Statuses of logins by browsers, each given by the headers that reach the service."""
    with served(WITH_TOKEN.model_copy(update={"public_url": public_url})) as url:
        return [exchange(f"{url}/login", method="POST", body=b"token=x", **headers)[0] for headers in browsers]


PUBLIC = "https://rubrics.example.org"


@pytest.mark.parametrize(
    ("public_url", "host", "origin"),
    [
        (PUBLIC, "rubricworks-api:8080", PUBLIC),
        (f"{PUBLIC}/", "rubricworks-api:8080", PUBLIC),
        (f"{PUBLIC}:443", "rubricworks-api:8080", PUBLIC),
        ("HTTPS://Rubrics.Example.org", "rubricworks-api", PUBLIC),
        (f"{PUBLIC}:8443", "rubrics.example.org", f"{PUBLIC}:8443"),
        (PUBLIC, "other.example.org", "https://other.example.org"),
        (None, "rubrics.example.org:443", PUBLIC),
        (None, "rubrics.example.org:80", "http://rubrics.example.org"),
        (None, "RUBRICS.example.org", "http://rubrics.example.org"),
        (None, "[::1]:80", "http://[::1]"),
    ],
)
def test_a_login_through_a_proxy_comes_from_the_public_address_or_the_host(public_url, host, origin):
    assert login_statuses(public_url, {"Host": host, "Origin": origin}) == [401]


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://rubrics.example.org",
        f"{PUBLIC}:8443",
        f"{PUBLIC}.evil.example",
        f"{PUBLIC}:x",
        "null",
        "",
        "//rubrics.example.org",
    ],
)
def test_another_origin_than_the_public_address_is_refused(origin):
    assert login_statuses(PUBLIC, {"Host": "rubricworks-api:8080", "Origin": origin}) == [403]


def test_the_browser_itself_says_whose_page_a_request_is_from():
    through_a_proxy = {"Host": "rubricworks-api:8080", "Origin": PUBLIC}
    said = ("same-origin", "none", "same-site", "cross-site", "")
    browsers = [through_a_proxy | {"Sec-Fetch-Site": site} for site in said]
    assert login_statuses(None, *browsers) == [401, 401, 403, 403, 403]


@pytest.mark.parametrize(
    ("origin", "is_secure"),
    [("https://rubrics.example.org", True), ("http://rubrics.internal", False), (None, True), ("null", True)],
)
def test_a_session_has_a_secure_cookie_where_its_browser_came_over_https(origin, is_secure):
    with served(WITH_TOKEN.model_copy(update={"public_url": PUBLIC})) as url:
        made = ask(f"{url}/api/v1/tokens", method="POST", body={"name": "one", "scope": "viewer"}, **bearer())
        of_browser = {"Host": (origin or "").rpartition("/")[2] or "api", "Sec-Fetch-Site": "same-origin"}
        of_browser |= {"Origin": origin} if origin else {}
        answer = exchange(f"{url}/login", method="POST", body=f"token={made[1]['secret']}".encode(), **of_browser)
    assert answer[0] == 303
    assert ("Secure" in answer[1]["set-cookie"]) == is_secure
