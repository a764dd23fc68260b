"""Logins at an identity provider: which ID tokens hold, whose groups have a role, and how sessions end."""

import base64
import hmac
import json
import re
import sqlite3
from dataclasses import dataclass
from html import unescape
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from identity_provider import CLIENT, identity_provider
from pydantic import SecretStr
from served_api import TOKEN, ask, bearer, exchange, served

from rubricworks.errors import UserError
from rubricworks.platform_api.project import Login, Project, load_project
from rubricworks.platform_api.settings import ApiSettings, check_login, settings_from_environment

jwt = pytest.importorskip("jwt")
ROLES = {
    "viewer": ("readers",),
    "runner": ("captions",),
    "approver": ("leads",),
    "admin": ("platform",),
}


@pytest.fixture(scope="module")
def provider():
    with identity_provider() as provider:
        yield provider


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def url(provider, folder):
    project = Project(name="captions", roles=ROLES, login=Login(issuer=provider.issuer, client_id=CLIENT))
    with served(ApiSettings(storage=str(folder), token=SecretStr(TOKEN), project=project)) as url:
        yield url


@dataclass
class Begun:
    """A login that a browser began."""

    query: dict[str, str]
    """Of the address that the browser was sent to."""
    cookie: str


def begin(url, target="/runs"):
    status, headers, _ = exchange(f"{url}/login/start?{urlencode({'next': target})}")
    assert status == 303
    query = {name: values[0] for name, values in parse_qs(urlsplit(headers["location"]).query).items()}
    return Begun(query, headers["set-cookie"].partition(";")[0])


def come_back(url, begun, *, cookie=None, **query):
    sent = {"state": begun.query["state"], "code": "code-1", **query}
    return exchange(f"{url}/login/callback?{urlencode(sent)}", Cookie=begun.cookie if cookie is None else cookie)


def log_in(url, provider, token=None, **claims):
    """Status, headers and page of a login with an ID token."""
    begun = begin(url)
    provider.challenges["code-1"] = begun.query["code_challenge"]
    provider.token = (
        token(begun.query["nonce"]) if token else provider.sign(provider.claims(begun.query["nonce"], **claims))
    )
    return come_back(url, begun)


def session_of(headers):
    (cookie,) = re.findall(r"rubricworks_session=\w+", headers["set-cookie"])
    return cookie


def reason(page):
    return unescape(re.search(r'role="alert">(.*?)</p>', page.decode())[1])


def test_a_person_logs_in_with_the_role_of_its_groups_and_out_again(url, provider):
    begun = begin(url, "/runs?state=failed")
    assert begun.query["code_challenge_method"] == "S256"
    provider.challenges["code-1"] = begun.query["code_challenge"]
    provider.token = provider.sign(provider.claims(begun.query["nonce"]))
    status, headers, page = come_back(url, begun)
    assert (status, b'url=/runs?state=failed"' in page) == (200, True)
    assert "SameSite=strict" in headers["set-cookie"]
    cookie = session_of(headers)
    assert ask(f"{url}/api/v1/caller", Cookie=cookie)[1] == {
        "name": "ada@example.org",
        "scope": "runner",
        "project": "captions",
    }
    opened = ask(f"{url}/api/v1/changes?action=session.open", **bearer())[1]["items"][0]
    assert (opened["who"], opened["details"]) == ("ada@example.org", {"scope": "runner", "subject_id": "1"})
    status, headers, _ = exchange(f"{url}/logout", method="POST", Cookie=cookie)
    assert (status, headers["location"]) == (303, "/login?ended=true")
    assert exchange(f"{url}/api/v1/caller", Cookie=cookie)[0] == 401
    page = exchange(f"{url}{headers['location']}")[2].decode()
    assert f'href="{provider.issuer}/end?client_id={CLIENT}' in page


@pytest.mark.parametrize(
    ("groups", "scope"),
    [
        (["readers"], "viewer"),
        (["leads", "other"], "approver"),
        (["captions", "leads", "readers"], "runner+approver"),
        (["captions", "platform"], "admin"),
        ("captions", "runner"),
    ],
)
def test_groups_become_the_rights_of_all_their_roles(url, provider, groups, scope):
    _, headers, _ = log_in(url, provider, groups=groups)
    assert ask(f"{url}/api/v1/caller", Cookie=session_of(headers))[1]["scope"] == scope


def forged(provider, nonce):
    return jwt.encode(provider.claims(nonce), rsa.generate_private_key(65537, 2048), "RS256", headers={"kid": "first"})


def hmac_by_public_key(provider, nonce):
    """An attack on verifiers that take the algorithm from the token: HMAC, whose secret is the public key."""
    secret = jwt.algorithms.RSAAlgorithm.to_jwk(provider.keys["first"].public_key()).encode()
    parts = [{"alg": "HS256", "kid": "first"}, provider.claims(nonce)]
    signed = b".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    signature = base64.urlsafe_b64encode(hmac.digest(secret, signed, "sha256")).rstrip(b"=")
    return f"{signed.decode()}.{signature.decode()}"


@pytest.mark.parametrize(
    ("token", "words"),
    [
        pytest.param(forged, "Signature verification failed", id="forged"),
        pytest.param(lambda p, n: jwt.encode(p.claims(n), None, "none"), "signed by 'none'", id="none"),
        pytest.param(hmac_by_public_key, "signed by 'HS256'", id="hmac"),
        pytest.param(lambda p, n: p.sign(p.claims(n, exp=1_000_000_000)), "has expired", id="expired"),
        pytest.param(lambda p, n: p.sign(p.claims(n, iat=4_000_000_000)), "not yet valid", id="of the future"),
        pytest.param(lambda p, n: p.sign(p.claims(n, aud="another")), "for another client", id="audience"),
        pytest.param(lambda p, n: p.sign(p.claims(n, aud=[CLIENT, "b"], azp="b")), "issued to 'b'", id="party"),
        pytest.param(lambda p, n: p.sign(p.claims(n, iss="https://evil.example")), "another issuer", id="issuer"),
        pytest.param(lambda p, n: p.sign(p.claims("of-before")), "of another login", id="replayed"),
        pytest.param(lambda p, n: p.sign(p.claims(None)), '"nonce"', id="no nonce"),
        pytest.param(lambda p, n: p.sign(p.claims(n, exp=None)), '"exp"', id="no expiry"),
        pytest.param(
            lambda p, n: jwt.encode(p.claims(n), p.keys["first"], "RS256", headers={"kid": "x"}),
            "does not have",
            id="unknown key",
        ),
        pytest.param(lambda p, n: "a.b.c", "does not hold", id="no token"),
        pytest.param(lambda p, n: p.sign(p.claims(n, email_verified=False)), "has not verified", id="unverified"),
        pytest.param(lambda p, n: p.sign(p.claims(n, email_verified=None)), "has not verified", id="unknown address"),
        pytest.param(lambda p, n: p.sign(p.claims(n, email="a b")), "is no name", id="name"),
        pytest.param(
            lambda p, n: p.sign(p.claims(n, groups=["nobody"])), "is in no group that has a role", id="no role"
        ),
        pytest.param(lambda p, n: p.sign(p.claims(n, groups=None)), "is in no group that has a role", id="no groups"),
    ],
)
def test_an_id_token_that_does_not_hold_opens_no_session(url, provider, token, words):
    provider.user_info = {"sub": "1"}
    status, headers, page = log_in(url, provider, lambda nonce: token(provider, nonce))
    assert (status, words in reason(page)) == (403, True), reason(page)
    assert "rubricworks_session" not in headers["set-cookie"]


def test_a_rotated_key_is_fetched_when_a_token_names_it(url, provider):
    provider.add_key("second")
    status, _, _ = log_in(url, provider, lambda nonce: provider.sign(provider.claims(nonce), "second"))
    assert status == 200
    retired = provider.keys.pop("first")
    token = jwt.encode
    try:
        provider.add_key("third")
        assert log_in(url, provider, lambda n: provider.sign(provider.claims(n), "third"))[0] == 200
        status, _, page = log_in(
            url, provider, lambda n: token(provider.claims(n), retired, "RS256", headers={"kid": "first"})
        )
        assert (status, "does not have" in reason(page)) == (403, True)
    finally:
        provider.keys["first"] = retired


def test_groups_come_from_userinfo_of_the_same_person_where_the_token_has_none(url, provider):
    provider.user_info = {"sub": "1", "groups": ["platform"]}
    _, headers, _ = log_in(url, provider, groups=None)
    assert ask(f"{url}/api/v1/caller", Cookie=session_of(headers))[1]["scope"] == "admin"
    provider.user_info = {"sub": "2", "groups": ["platform"]}
    status, _, page = log_in(url, provider, groups=None)
    assert (status, "of another person" in reason(page)) == (403, True)


def test_a_code_counts_once_in_the_browser_that_began_the_login(url, provider):
    begun, other = begin(url), begin(url)
    for code in ("code-1", "code-2"):
        provider.challenges[code] = begun.query["code_challenge"]
    provider.token = provider.sign(provider.claims(begun.query["nonce"]))
    for answer in (
        come_back(url, begun, cookie=""),
        come_back(url, begun, cookie=other.cookie),
        come_back(url, begun, state="guessed"),
    ):
        assert (answer[0], "no login that this browser began" in reason(answer[2])) == (403, True)
    assert "another identity provider" in reason(come_back(url, begun, iss="https://evil.example")[2])
    assert come_back(url, begun)[0] == 200
    assert "invalid_grant" in reason(come_back(url, begun)[2])
    assert "access_denied" in reason(come_back(url, begun, error="access_denied")[2])
    # A code that was stolen from another browser's login is of another verifier.
    assert "invalid_grant" in reason(come_back(url, other, code="code-2")[2])


def test_a_session_ends_after_its_hours_and_by_an_admin(url, provider, folder):
    first, second = (session_of(log_in(url, provider, email="bea@example.org")[1]) for _ in range(2))
    listed = ask(f"{url}/api/v1/sessions", **bearer())[1]["items"]
    assert [session["groups"] for session in listed if session["person"] == "bea@example.org"] == [["captions"]] * 2
    with sqlite3.connect(folder / "platform.db") as database:
        database.execute(
            "UPDATE sessions SET expires_at = '2020-01-01 00:00:00.000000' WHERE rowid = "
            "(SELECT max(rowid) FROM sessions WHERE person = 'bea@example.org')"
        )
    assert sorted(exchange(f"{url}/api/v1/caller", Cookie=cookie)[0] for cookie in (first, second)) == [200, 401]
    status, ended = ask(f"{url}/api/v1/sessions/bea@example.org", method="DELETE", **bearer())
    assert (status, ended["person"]) == (200, "bea@example.org")
    assert {exchange(f"{url}/api/v1/caller", Cookie=cookie)[0] for cookie in (first, second)} == {401}
    assert ask(f"{url}/api/v1/sessions/bea@example.org", method="DELETE", **bearer())[0] == 404
    change = ask(f"{url}/api/v1/changes?action=session.end", **bearer())[1]["items"][0]
    assert (change["who"], change["subject"]) == ("environment", "bea@example.org")


def test_an_admin_ends_a_persons_sessions_on_the_page_of_tokens(url, provider):
    person = session_of(log_in(url, provider, email="cem@example.org")[1])
    admin = session_of(log_in(url, provider, email="root@example.org", groups=["platform"])[1])
    assert b"cem@example.org" in exchange(f"{url}/tokens", Cookie=admin)[2]
    assert exchange(f"{url}/sessions/cem@example.org/end", method="POST", Cookie=person)[0] == 403
    assert exchange(f"{url}/sessions/cem@example.org/end", method="POST", Cookie=admin)[0] == 303
    assert exchange(f"{url}/api/v1/caller", Cookie=person)[0] == 401


def test_a_change_of_the_roles_holds_for_open_sessions(tmp_path, provider):
    def settings(roles):
        project = Project(name="captions", roles=roles, login=Login(issuer=provider.issuer, client_id=CLIENT))
        return ApiSettings(storage=str(tmp_path), token=SecretStr(TOKEN), project=project)

    with served(settings(ROLES)) as url:
        cookie = session_of(log_in(url, provider)[1])
    with served(settings({"viewer": ("captions",)})) as url:
        assert ask(f"{url}/api/v1/caller", Cookie=cookie)[1]["scope"] == "viewer"
    with served(settings({"viewer": ("others",)})) as url:
        assert exchange(f"{url}/api/v1/caller", Cookie=cookie)[0] == 401


def test_a_provider_that_is_down_refuses_logins_and_nothing_else(url, provider):
    cookie = session_of(log_in(url, provider)[1])
    begun = begin(url)
    provider.is_down = True
    try:
        status, _, page = come_back(url, begun)
        assert (status, "does not take the code (HTTP 500)" in reason(page)) == (403, True)
        assert exchange(f"{url}/api/v1/caller", Cookie=cookie)[0] == 200
    finally:
        provider.is_down = False
    issuer = "http://127.0.0.1:9"
    project = Project(name="captions", roles=ROLES, login=Login(issuer=issuer, client_id=CLIENT))
    with served(ApiSettings(token=SecretStr(TOKEN), project=project)) as away:
        status, _, page = exchange(f"{away}/login/start")
        assert (status, f"the identity provider {issuer} does not answer" in reason(page)) == (503, True)
        assert ask(f"{away}/api/v1/caller", **bearer())[1]["name"] == "environment"


def test_a_provider_that_calls_itself_otherwise_is_refused(provider):
    project = Project(name="x", roles=ROLES, login=Login(issuer=f"{provider.issuer}/", client_id=CLIENT))
    with served(ApiSettings(token=SecretStr(TOKEN), project=project)) as url:
        status, _, page = exchange(f"{url}/login/start")
    assert (status, f"calls itself {provider.issuer}" in reason(page)) == (503, True)


def test_no_browser_logs_in_with_a_token_where_people_have_accounts(url):
    made = ask(f"{url}/api/v1/tokens", method="POST", body={"name": "ci", "scope": "viewer"}, **bearer())[1]
    head = {"Content-Type": "application/x-www-form-urlencoded", "Idempotency-Key": "with-a-token"}
    status, headers, page = exchange(
        f"{url}/login", method="POST", body=urlencode({"token": made["secret"]}).encode(), **head
    )
    assert (status, "set-cookie" in headers, "Programs call with a token" in reason(page)) == (403, False, True)
    assert b'type="password"' not in exchange(f"{url}/login")[2]
    assert exchange(f"{url}/api/v1/caller", **bearer(made["secret"]))[0] == 200


def test_each_change_by_the_break_glass_token_is_logged_before_it_is_made(tmp_path, provider):
    project = Project(name="captions", roles=ROLES, login=Login(issuer=provider.issuer, client_id=CLIENT))
    with served(ApiSettings(storage=str(tmp_path), token=SecretStr(TOKEN), project=project)) as url:
        for _ in range(2):
            assert exchange(f"{url}/api/v1/runs", **bearer())[0] == 200
        for name in ("one", "one"):
            exchange(f"{url}/api/v1/tokens", method="POST", body={"name": name, "scope": "viewer"}, **bearer())
        broken = ask(f"{url}/api/v1/changes?action=break_glass", **bearer())[1]["items"]
    assert [change["subject"] for change in broken] == ["POST /api/v1/tokens"] * 2 + ["GET /api/v1/runs"]
    assert {change["details"]["address"] for change in broken} == {"127.0.0.1"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: Captions!", "name: write at most 40"),
        ("name: a\nroles: {owner: [x]}", "roles.owner"),
        ("name: a\nlogin: {issuer: 'http://login.example', client_id: x}", "login.issuer: write https://"),
        ("name: a\nlogin: {issuer: 'https://login.example', client_id: x}", "roles: no group has a role"),
        ("name: a\nbudget: {dollars_a_month: 0}", "budget.dollars_a_month"),
        ("name: [", "line"),
    ],
)
def test_a_mistake_in_the_project_file_is_told_in_one_line(tmp_path, text, words):
    (tmp_path / "project.yaml").write_text(text)
    with pytest.raises(UserError, match=re.escape(words)) as refused:
        load_project(str(tmp_path / "project.yaml"))
    assert "\n" not in str(refused.value)


def test_a_login_needs_the_clients_secret_and_the_address_that_browsers_come_back_to(tmp_path, monkeypatch):
    file = tmp_path / "project.yaml"
    login = "{issuer: 'https://l.example', client_id: x, client_secret_env: RW_TEST_SECRET}"
    file.write_text(f"name: a\nroles: {{viewer: [x]}}\nlogin: {login}")
    monkeypatch.setenv("RUBRICWORKS_PROJECT", str(file))
    with pytest.raises(UserError, match="RW_TEST_SECRET is not set"):
        check_login(settings_from_environment())
    monkeypatch.setenv("RW_TEST_SECRET", "of-the-client")
    with pytest.raises(UserError, match="RUBRICWORKS_PUBLIC_URL is not set"):
        check_login(settings_from_environment())
    monkeypatch.setenv("RUBRICWORKS_PUBLIC_URL", "https://captions.example.org")
    check_login(settings_from_environment())
