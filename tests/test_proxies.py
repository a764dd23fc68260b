"""NO_PROXY as curl, Go (`golang.org/x/net/http/httpproxy`) and requests read it."""

import pytest
from yarl import URL

from rubricworks.errors import UserError
from rubricworks.proxies import proxy_of


@pytest.fixture(autouse=True)
def proxies(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HTTP_PROXY", "http://proxy:3128")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")


@pytest.mark.parametrize(
    ("no_proxy", "url", "direct"),
    [
        ("", "http://10.1.2.3:8000/v1", False),
        ("10.0.0.0/8", "http://10.1.2.3:8000/v1", True),
        ("10.0.0.0/8", "http://11.1.2.3:8000/v1", False),
        ("10.1.2.3/8", "http://10.9.9.9/v1", True),  # host bits set
        ("localhost, 10.0.0.0/8 192.168.0.0/16", "https://192.168.1.5/v1", True),
        ("10.0.0.0/8", "http://ten.example/v1", False),  # names are not resolved
        ("10.1.2.3", "http://10.1.2.3:8000/v1", True),
        ("10.1.2.3", "http://10.1.2.30/v1", False),
        ("2.3", "http://10.1.2.3/v1", False),  # an address has no subdomains
        ("10.1.2.3:8000", "http://10.1.2.3:8000/v1", True),
        ("10.1.2.3:8000", "http://10.1.2.3:9000/v1", False),
        ("10.0.0.0/99", "http://10.1.2.3/v1", False),
        ("judge.test", "http://judge.test/v1", True),
        ("judge.test", "http://eu.judge.test/v1", True),
        ("judge.test", "http://notjudge.test/v1", False),
        (".judge.test", "http://eu.judge.test/v1", True),
        (".judge.test", "http://judge.test/v1", True),  # curl and requests; Go takes subdomains alone
        ("*.judge.test", "http://eu.judge.test/v1", True),
        ("JUDGE.test.", "http://judge.TEST/v1", True),
        ("judge.test:443", "https://judge.test/v1", True),
        ("judge.test:443", "https://judge.test:8443/v1", False),
        ("*", "https://anything.example/v1", True),
        ("a.test,*", "https://anything.example/v1", True),
        ("::1", "http://[::1]:8000/v1", True),
        ("[::1]", "http://[::1]:8000/v1", True),
        ("[::1]:8000", "http://[::1]:8000/v1", True),
        ("[::1]:8000", "http://[::1]:9000/v1", False),
        ("fd00::/8", "http://[fd12::3]/v1", True),
        ("fd00::/8", "http://[fe80::3]/v1", False),
        ("fd00::/8", "http://10.1.2.3/v1", False),
        ("10.0.0.0/8", "http://[::ffff:10.1.2.3]/v1", True),
        (",, ,", "http://judge.test/v1", False),
    ],
)
def test_a_host_in_no_proxy_is_reached_without_one(monkeypatch, no_proxy, url, direct):
    monkeypatch.setenv("NO_PROXY", no_proxy)
    assert proxy_of(URL(url)) == (None if direct else URL("http://proxy:3128"))


def test_all_proxy_stands_in_and_an_address_without_scheme_is_one_of_http(monkeypatch):
    monkeypatch.delenv("HTTP_PROXY")
    assert proxy_of(URL("http://judge.test/v1")) is None
    monkeypatch.setenv("ALL_PROXY", "other:3128")
    assert proxy_of(URL("http://judge.test/v1")) == URL("http://other:3128")
    assert proxy_of(URL("https://judge.test/v1")) == URL("http://proxy:3128")


def test_a_proxy_that_is_not_one_of_http_is_refused_with_the_variable(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "socks5://proxy:1080")
    with pytest.raises(UserError, match=r"^HTTPS_PROXY names no proxy that can be used \(socks5://…\)"):
        proxy_of(URL("https://judge.test/v1"))
