"""Images from hosts that are allowed, and nothing from anywhere else, whatever names, redirects and servers try."""

import re

import pytest
from image_server import ImageServer, Names, Page, fetch, fetcher, here_or_public, picture, reason_of

from rubricworks.data.downloads.fetcher import Fetcher
from rubricworks.data.downloads.hosts import AllowedHosts

pytestmark = pytest.mark.usefixtures("quick_retries")


def test_image_comes_as_it_is_and_nothing_of_this_machine_is_sent_along(server, monkeypatch, tmp_path):
    (tmp_path / "netrc").write_text("machine images.test login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    server.pages["/go"] = Page(status=302, headers={"Location": "/a.png", "Set-Cookie": "id=7; Path=/"})
    url = f"http://images.test:{server.port}"
    assert fetch(fetcher(f"images.test:{server.port}"), f"{url}/go", f"{url}/a.png") == [picture(), picture()]
    assert [request.path for request in server.asked] == ["/go", "/a.png", "/a.png"]
    for request in server.asked:
        assert request.headers["Accept-Encoding"] == "identity"
        assert request.headers.keys() == {"Host", "User-Agent", "Accept", "Accept-Encoding"}


def test_host_that_is_not_allowed_is_not_even_looked_up():
    asker = fetcher("images.test", names={"evil.example": ["127.0.0.1"]})
    assert fetch(asker, "http://evil.example/a.png") == ["host evil.example is not in data.allowed_hosts"]
    assert asker._resolver.asked == []


@pytest.mark.parametrize(
    "literal",
    ["127.0.0.1", "2130706433", "0x7f.1", "127.1", "\uff11\uff12\uff17.0.0.1", "%31%32%37.0.0.1", "[::ffff:127.0.0.1]"],
)
def test_redirect_to_an_address_is_refused_in_every_spelling(literal, server):
    location = f"http://{literal}:{server.port}/a.png"
    server.pages["/go"] = Page(status=302, headers={"Location": location.encode().decode("latin-1")})
    assert re.fullmatch(
        "redirect refused: host .* is not a name; addresses are not fetched from", reason_of(server, "/go")
    )
    assert server.times("/a.png") == 0


def test_server_on_this_machine_is_not_reached_without_the_tests_keyword(server):
    url = f"http://localhost:{server.port}/a.png"
    (result,) = fetch(Fetcher(AllowedHosts([f"localhost:{server.port}"])), url)
    assert result in ("address 127.0.0.1 is loopback", "address ::1 is loopback")
    assert server.asked == []


@pytest.mark.parametrize("answers", [["10.0.0.5"], ["127.0.0.1", "10.0.0.5"], ["10.0.0.5", "127.0.0.1"]])
def test_name_with_a_private_address_among_others_is_refused(answers, server):
    assert reason_of(server, names={"images.test": answers}) == "address 10.0.0.5 is private"
    assert server.asked == []


def test_connection_goes_to_the_address_that_was_checked(server):
    inside = ImageServer("127.0.0.2", server.port)
    inside.pages["/a.png"] = Page(b"a secret")
    rebinding = fetcher(f"images.test:{server.port}", names={"images.test": [["127.0.0.1"], ["127.0.0.2"]]})
    asker = Names({"images.test": ["127.0.0.2"]})
    try:
        url = f"http://images.test:{server.port}/a.png"
        assert fetch(rebinding, url) == [picture()]
        assert rebinding._resolver.asked == ["images.test"]
        assert [request.address for request in server.asked] == ["127.0.0.1"]
        # The second answer, had it been asked for, is refused.
        hosts = AllowedHosts([f"images.test:{server.port}"])
        result = fetch(Fetcher(hosts, resolver=asker, addresses_allowed=here_or_public), url)
        assert result == ["address 127.0.0.2 is loopback"]
        assert inside.asked == []
    finally:
        inside.close()


@pytest.mark.parametrize("inside", ["169.254.169.254", "::ffff:169.254.169.254"])
def test_name_that_leads_to_the_cloud_s_metadata_the_second_time_is_refused(inside, server):
    resolver = Names({"images.test": [["127.0.0.1"], [inside]]})
    url = f"http://images.test:{server.port}/a.png"
    hosts = AllowedHosts([f"images.test:{server.port}"])
    for expected in (picture(), f"address {inside} is link-local"):
        assert fetch(Fetcher(hosts, resolver=resolver, addresses_allowed=here_or_public), url) == [expected]
    assert resolver.asked == ["images.test"] * 2
    assert server.times("/a.png") == 1


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("http://evil.example:{port}/a.png", "host evil.example is not in data.allowed_hosts"),
        ("//evil.example:{port}/a.png", "host evil.example is not in data.allowed_hosts"),
        ("http://inside.test:{port}/a.png", "address 10.0.0.5 is private"),
        ("http://images.test:1/a.png", "port 1 is not allowed"),
        ("http://me:secret@images.test:{port}/a.png", "the URL holds a user or password"),
        ("file:///etc/passwd", "not an http"),
        ("http://[", "not a URL"),
    ],
)
def test_redirect_is_followed_only_where_the_first_url_might_have_led(location, message, server):
    server.pages["/go"] = Page(status=301, headers={"Location": location.format(port=server.port)})
    names = {"evil.example": ["127.0.0.1"], "inside.test": ["10.0.0.5"]}
    asker = fetcher(f"images.test:{server.port}", f"inside.test:{server.port}", names=names)
    (result,) = fetch(asker, f"http://images.test:{server.port}/go")
    assert result.startswith("redirect refused: ")
    assert message in result
    assert [request.path for request in server.asked] == ["/go"]


def test_five_redirects_are_followed_and_a_sixth_is_not(server):
    for number in range(6):
        server.pages[f"/{number}"] = Page(status=307, headers={"Location": f"/{number - 1}" if number else "a.png"})
    url = f"http://images.test:{server.port}"
    results = fetch(fetcher(f"images.test:{server.port}"), f"{url}/4", f"{url}/5")
    assert results == [picture(), "more than 5 redirects"]


def test_redirect_from_https_to_http_is_refused_and_an_unknown_certificate_is(server, certificates):
    for_server, for_client = certificates
    secure = ImageServer(tls=for_server)
    secure.pages["/a.png"] = Page(picture())
    secure.pages["/go"] = Page(status=302, headers={"Location": f"http://images.test:{server.port}/a.png"})
    hosts = [f"images.test:{secure.port}", f"images.test:{server.port}"]
    url = f"https://images.test:{secure.port}"
    try:
        message = "redirect refused: it leads from https to http, to images.test"
        assert fetch(fetcher(*hosts, tls=for_client), f"{url}/a.png", f"{url}/go") == [picture(), message]
        assert fetch(fetcher(*hosts), f"{url}/a.png") == ["the TLS certificate or handshake was not accepted"]
    finally:
        secure.close()
    assert server.asked == []
