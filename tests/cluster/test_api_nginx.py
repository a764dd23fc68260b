"""Browsers behind nginx: they log in and stay so, whatever the proxy makes of their `Host`, over HTTPS or not."""

import re
import shutil
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode

import pytest
from certificates import tls_contexts
from object_store import free_port
from pydantic import SecretStr
from served_api import TOKEN, ask, bearer, served

from rubricworks.platform_api.settings import ApiSettings

pytestmark = pytest.mark.cluster

NOTHING = ""  # and `Host` is the upstream's
FORWARDED = {
    "the default": NOTHING,
    "$host": "proxy_set_header Host $host;",
    "$http_host": "proxy_set_header Host $http_host; proxy_set_header X-Forwarded-For $remote_addr;",
    "$host:$server_port": "proxy_set_header Host $host:$server_port;",
}
_CONFIGURATION = """
daemon off; master_process off; pid nginx.pid; error_log stderr;
events {}
http {
  access_log off; client_body_temp_path body; proxy_temp_path proxied;
  fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
  %s
}
"""
_SERVER = "server {{ listen {listen}; {certificate} location / {{ proxy_pass {service}; {forwarded} }} }}"


@contextmanager
def nginx(folder: Path, *servers: str) -> Iterator[None]:
    if shutil.which("nginx") is None:
        pytest.skip("not installed: nginx; run tests/cluster/install.sh")
    (folder / "nginx.conf").write_text(_CONFIGURATION % "\n  ".join(servers))
    process = subprocess.Popen(["nginx", "-p", str(folder), "-c", "nginx.conf", "-e", "stderr"], cwd=folder)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def server(folder: Path, listen: str, service: str, forwarded: str) -> str:
    """A block of nginx that passes requests on; it ends TLS if it listens with `ssl`."""
    certificate = f"ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;"
    return _SERVER.format(
        listen=listen, service=service, forwarded=forwarded, certificate=certificate if "ssl" in listen else ""
    )


class Browser:
    """Keeps cookies as browsers do, and says with every form where its page is from."""

    def __init__(self, folder: Path, *, says_site: bool) -> None:
        context = ssl.create_default_context(cafile=str(folder / "cert.pem"))
        context.check_hostname = False
        handlers = urllib.request.HTTPCookieProcessor(CookieJar()), urllib.request.HTTPSHandler(context=context)
        self._opener, self._says_site = urllib.request.build_opener(*handlers), says_site

    def log_in(self, address: str, secret: str) -> tuple[int, str, str]:
        """Status, address and text of the page that a login from the start page leads to."""
        with self._opener.open(urllib.request.Request(address, headers={"Accept": "text/html"})) as page:
            assert page.url.startswith(f"{address}/login"), page.url
            hidden = dict(re.findall(r'name="(\w+)" value="(.*?)"', page.read().decode()))
        headers = {"Accept": "text/html", "Origin": address}
        if self._says_site and address.startswith("https://"):
            headers["Sec-Fetch-Site"] = "same-origin"
        form = urlencode(hidden | {"token": secret}).encode()
        try:
            with self._opener.open(urllib.request.Request(f"{address}/login", data=form, headers=headers)) as page:
                return page.status, page.url.removeprefix(address), page.read().decode()
        except HTTPError as error:
            return error.code, error.url.removeprefix(address), error.read().decode()


def until_listening(*addresses: tuple[str, int]) -> None:
    for address in addresses:
        deadline = time.monotonic() + 300
        while True:
            try:
                socket.create_connection(address).close()
                break
            except OSError:
                assert time.monotonic() < deadline, address
                time.sleep(0.02)


@contextmanager
def service(folder: Path, public_url: str | None) -> Iterator[tuple[str, str]]:
    """Address of the service, and a viewer's token."""
    runs = folder / "runs"
    runs.mkdir(exist_ok=True)
    with served(ApiSettings(token=SecretStr(TOKEN), storage=str(runs), public_url=public_url)) as url:
        made = ask(f"{url}/api/v1/tokens", method="POST", body={"name": "one", "scope": "viewer"}, **bearer())
        yield url, made[1]["secret"]


@pytest.mark.parametrize("says_site", [True, False])
@pytest.mark.parametrize("forwarded", FORWARDED.values(), ids=FORWARDED)
def test_a_login_behind_tls_leads_to_the_runs(tmp_path, forwarded, says_site):
    tls_contexts(tmp_path, "proxy")
    port = free_port()
    address = f"https://127.0.0.1:{port}"
    with (
        service(tmp_path, address) as (url, secret),
        nginx(tmp_path, server(tmp_path, f"127.0.0.1:{port} ssl", url, forwarded)),
    ):
        until_listening(("127.0.0.1", port))
        status, path, page = Browser(tmp_path, says_site=says_site).log_in(address, secret)
    assert (status, path) == (200, "/runs"), page[-600:]


def test_a_login_behind_tls_needs_no_public_address_where_the_browser_says_its_site(tmp_path):
    tls_contexts(tmp_path, "proxy")
    port = free_port()
    with (
        service(tmp_path, None) as (url, secret),
        nginx(tmp_path, server(tmp_path, f"127.0.0.1:{port} ssl", url, NOTHING)),
    ):
        until_listening(("127.0.0.1", port))
        address = f"https://127.0.0.1:{port}"
        assert Browser(tmp_path, says_site=True).log_in(address, secret)[:2] == (200, "/runs")
        status, _, page = Browser(tmp_path, says_site=False).log_in(address, secret)
        assert (status, "set RUBRICWORKS_PUBLIC_URL to the address that browsers use" in page) == (403, True)


def test_of_two_hosts_with_tls_on_one_both_log_in(tmp_path):
    tls_contexts(tmp_path, "proxy")
    safe, plain = free_port(), free_port()
    addresses = [f"https://127.0.0.1:{safe}", f"http://127.0.0.2:{plain}"]
    with (
        service(tmp_path, addresses[0]) as (url, secret),
        nginx(
            tmp_path,
            server(tmp_path, f"127.0.0.1:{safe} ssl", url, FORWARDED["$http_host"]),
            server(tmp_path, f"127.0.0.2:{plain}", url, FORWARDED["$http_host"]),
        ),
    ):
        until_listening(("127.0.0.1", safe), ("127.0.0.2", plain))
        browser = Browser(tmp_path, says_site=False)
        assert [browser.log_in(address, secret)[:2] for address in addresses] == [(200, "/runs"), (200, "/runs")]
