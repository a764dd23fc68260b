"""Login and logout at a certified identity provider (npm's `oidc-provider`), its keys rotated, its tokens expired."""

import re
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from html import unescape
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from urllib.parse import urlencode, urljoin

import pytest
from browser import chromium
from object_store import free_port
from peer_folders import PEERS
from pydantic import SecretStr
from served_api import TOKEN, ask, bearer

from rubricworks.listening import listen, url_of
from rubricworks.platform_api.app import create_app
from rubricworks.platform_api.project import Login, Project
from rubricworks.platform_api.serving import server_of
from rubricworks.platform_api.settings import ApiSettings

pytestmark = pytest.mark.cluster
jwt = pytest.importorskip("jwt")

PACKAGE = PEERS / "oidc-provider" / "node_modules" / "oidc-provider"
SCRIPT = Path(__file__).parents[1] / "support" / "servers" / "oidc_provider.mjs"


class Browser:
    """A browser without scripts: it keeps cookies, follows redirects, and sends the forms of the pages it is shown."""

    def __init__(self) -> None:
        self.cookies = CookieJar(DefaultCookiePolicy(secure_protocols=("http", "https")))
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies))

    def open(self, address: str, form: dict[str, str] | None = None) -> tuple[int, str, str]:
        """Status, address and page, after all redirects."""
        body = urlencode(form).encode() if form is not None else None
        try:
            answer = self._opener.open(urllib.request.Request(address, body), timeout=300)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            return answer.status, answer.url, answer.read().decode()

    def log_in(self, url: str, account: str) -> tuple[int, str, str]:
        """Log in as an account of the provider, and take it that the client may know who it is."""
        status, address, page = self.open(f"{url}/login/start?next=/tokens")
        while (form := re.search(r'<form[^>]*action="([^"]*)"', page)) and "/interaction/" in address:
            fields = {"prompt": re.search(r'name="prompt" value="(\w+)"', page)[1]}
            if fields["prompt"] == "login":
                fields |= {"login": account, "password": "any"}
            status, address, page = self.open(urljoin(address, unescape(form[1])), fields)
        return status, address, page


def issuer(port: int) -> str:
    """Another site than the service, which is at 127.0.0.1: its browser's navigations come from elsewhere."""
    return f"http://localhost:{port}"


@contextmanager
def provider(port: int, url: str) -> Iterator[None]:
    command = ["node", str(SCRIPT), str(PACKAGE), issuer(port), f"{url}/login/callback", f"{url}/login"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield
        finally:
            process.kill()


@pytest.fixture(scope="module")
def ports() -> tuple[int, int]:
    if shutil.which("node") is None or not PACKAGE.is_dir():
        pytest.skip("oidc-provider is not installed; tests/cluster/install.sh does it")
    return free_port(), free_port()


@pytest.fixture(scope="module")
def url(ports, tmp_path_factory) -> Iterator[str]:
    login = Login(issuer=issuer(ports[0]), client_id="rubricworks-captions", client_secret_env="RW_TEST_OIDC_SECRET")
    project = Project(name="captions", roles={"viewer": ("readers",), "admin": ("platform",)}, login=login)
    listening = listen("127.0.0.1", ports[1])
    folder = str(tmp_path_factory.mktemp("runs"))
    settings = ApiSettings(storage=folder, token=SecretStr(TOKEN), project=project, own_url=url_of(listening))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RW_TEST_OIDC_SECRET", "of the client & its/own")
        server = server_of(create_app(settings))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        while not server.started and thread.is_alive():
            time.sleep(0.005)
        yield url_of(listening)
        server.should_exit = True
        thread.join()


def session(browser: Browser) -> dict[str, str]:
    (value,) = (cookie.value for cookie in browser.cookies if cookie.name == "rubricworks_session")
    return {"Cookie": f"rubricworks_session={value}"}


def test_a_person_logs_in_is_known_by_its_groups_and_logs_out_here_and_there(ports, url) -> None:
    browser = Browser()
    with provider(ports[0], url):
        status, _, page = browser.log_in(url, "ada.platform")
        assert (status, "url=/tokens" in page) == (200, True), page
        caller = ask(f"{url}/api/v1/caller", **session(browser))[1]
        assert caller == {"name": "ada@example.org", "scope": "admin", "project": "captions"}
        status, _, page = browser.open(f"{url}/logout", {"idempotency_key": "log-out-here"})
        assert (status, "You are logged out here" in page) == (200, True)
        leave = unescape(re.search(r'<a href="(http[^"]*)">log out there', page)[1])
        _, address, page = browser.open(leave)
        form = dict(re.findall(r'name="(\w+)" value="(\w+)"', page)) | {"logout": "yes"}
        action = unescape(re.search(r'action="([^"]*)"', page)[1])
        assert browser.open(urljoin(address, action), form)[1].startswith(f"{url}/login")
        assert "/interaction/" in browser.open(f"{url}/login/start")[1], "the provider asks who it is again"
        assert ask(f"{url}/api/v1/tokens", **bearer())[0] == 200


def test_a_person_in_no_group_of_the_project_is_refused_by_name(ports, url) -> None:
    with provider(ports[0], url):
        status, _, page = Browser().log_in(url, "bea.others")
    assert (status, "bea@example.org is in no group that has a role in the project captions" in page) == (403, True)


def test_keys_that_the_provider_rotated_are_taken_without_a_restart(ports, url) -> None:
    for _ in range(2):
        with provider(ports[0], url):
            assert Browser().log_in(url, "cem.readers")[0] == 200


def test_an_id_token_that_expired_on_its_way_is_refused(ports, url, monkeypatch) -> None:
    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(hours=2)

    monkeypatch.setattr(jwt.api_jwt, "datetime", Later)
    with provider(ports[0], url):
        status, _, page = Browser().log_in(url, "ada.platform")
    assert (status, "ID token has expired" in page) == (403, True), page


def test_a_real_browser_is_logged_in_on_the_page_that_it_asked_for(ports, url) -> None:
    """The session's cookie is strict, and the provider's page is of another site."""
    with provider(ports[0], url), chromium() as browser:
        page = browser.new_context().new_page()
        page.goto(f"{url}/tokens")
        page.get_by_role("link", name="Log in", exact=True).first.click()
        page.fill("input[name=login]", "ada.platform")
        page.fill("input[name=password]", "any")
        page.click("button[type=submit]")
        page.click("button[type=submit]")  # the client may know who it is
        page.wait_for_url(f"{url}/tokens")
        assert page.locator("h1").inner_text() == "Tokens"
        assert "ada@example.org (admin)" in page.locator("header").inner_text()
        page.get_by_role("button", name="Log out").click()
        page.wait_for_url(f"{url}/login?ended=true")
        page.goto(f"{url}/tokens")
        assert page.url == f"{url}/login?next=/tokens"
        page.context.close()
