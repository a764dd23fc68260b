"""Allowed hosts of a recipe, and public addresses."""

import re
import socket
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from image_server import Names

from rubricworks.data.downloads.addresses import CheckedResolver, address_kind, is_public
from rubricworks.data.downloads.hosts import AllowedHosts, parse_url
from rubricworks.data.images import BadImage
from rubricworks.data.source_entries import RejectedEntry
from rubricworks.data.source_kinds.urls import url_entry


@pytest.mark.parametrize(
    ("entry", "url", "allowed"),
    [
        ("images.example.org", "https://images.example.org/a.png", True),
        ("Images.Example.org", "http://IMAGES.example.ORG./a.png", True),
        ("bücher.example", "http://xn--bcher-kva.example/", True),
        ("images.example.org", "https://example.org/", False),
        ("example.org", "https://images.example.org/", False),
        ("*.example.org", "https://a.b.example.org/", True),
        ("*.example.org", "https://example.org/", False),
        ("*.example.org", "https://badexample.org/", False),
        ("*.example.org", "https://x.example.org.evil.test/", False),
        ("example.org", "http://example.org:80/", True),
        ("example.org", "http://example.org:443/", True),
        ("example.org", "http://example.org:8080/", False),
        ("example.org:8080", "http://example.org:8080/", True),
        ("example.org:8080", "http://example.org/", False),
        ("*.example.org:8080", "http://a.example.org:8080/", True),
    ],
)
def test_entry_allows_its_host_and_ports_and_no_others(entry, url, allowed):
    if allowed:
        AllowedHosts([entry]).check(parse_url(url))
    else:
        with pytest.raises(BadImage, match=r"not in data\.allowed_hosts"):
            AllowedHosts([entry]).check(parse_url(url))


@pytest.mark.parametrize(
    "entry",
    ["", "*", "*.org", "a.*.org", "https://a.org", "a.org/x", "u@a.org", "a.org:x", "127.0.0.1", "[::1]:80", "0x7f.1"],
)
def test_entry_that_names_no_host_is_refused(entry):
    with pytest.raises(ValueError, match="names no host"):
        AllowedHosts([entry])


LITERALS = [
    *("127.0.0.1", "2130706433", "0x7f.1", "0x7f000001", "017700000001", "127.1", "127.0.0.1.", "0", "93.184.216.34"),
    *("①②⑦.⓪.⓪.①", "\uff11\uff12\uff17.0.0.1", "%31%32%37.0.0.1", "127.0.0.1%00.test"),
    *("[::1]", "[::]", "[::ffff:127.0.0.1]", "[fe80::1%25eth0]", "[64:ff9b::7f00:1]", "[2606:4700::1111]"),
]


@pytest.mark.parametrize("literal", LITERALS)
def test_address_in_the_place_of_a_host_is_refused_in_every_spelling(literal):
    for url in (f"http://{literal}/a.png", f"https://{literal}:8080"):
        with pytest.raises(BadImage, match="is not a name; addresses are not fetched from"):
            parse_url(url)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://images.test/a.png", "not an http"),
        ("file:///etc/passwd", "not an http"),
        ("data:image/png;base64,AAAA", "not an http"),
        ("//images.test/a.png", "not an http"),
        ("http:///a.png", "not an http"),
        ("http://me:secret@images.test/a.png", "holds a user or password"),
        ("http://me@images.test/a.png", "holds a user or password"),
        ("http://images.test\\@evil.example/", "not a URL"),
        ("http://images.test:99999/", "not a URL"),
        ("http://ima ges.test/", "is not a name"),
        ("http://" + "a" * 64 + ".test/", "is not a name"),
        ("http://images.test/" + "a" * 9_000, "longer than"),
    ],
)
def test_text_that_is_no_fetchable_url_is_rejected_at_its_place_without_its_secrets(url, message):
    entry = url_entry(url, "list.txt:3", ())
    assert isinstance(entry, RejectedEntry)
    assert entry.source == "list.txt:3"
    assert message in entry.reason
    assert "secret" not in entry.reason


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("93.184.216.34", "public"),
        ("172.15.255.255", "public"),
        ("172.32.0.0", "public"),
        ("2606:4700::1111", "public"),
        ("64:ff9b::5db8:d822", "public"),
        ("10.0.0.5", "private"),
        ("172.31.255.255", "private"),
        ("192.168.1.1", "private"),
        ("fd00:ec2::254", "a cloud's own service"),
        ("127.8.9.1", "loopback"),
        ("::1", "loopback"),
        ("0.0.0.0", "unspecified"),
        ("::", "unspecified"),
        ("169.254.169.254", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("100.64.0.1", "shared by a provider's customers"),
        ("100.127.255.255", "shared by a provider's customers"),
        ("168.63.129.16", "a cloud's own service"),
        ("224.0.0.1", "multicast"),
        ("ff02::1", "multicast"),
        ("255.255.255.255", "reserved"),
        ("192.0.0.192", "a cloud's own service"),
        ("::127.0.0.1", "reserved"),
        ("64:ff9b:1::7f00:1", "reserved"),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", "reserved"),  # Teredo, RFC 4380
        ("::ffff:169.254.169.254", "link-local"),
        ("64:ff9b::a00:5", "private"),
        ("2002:a00:5::1", "private"),
    ],
)
def test_kind_of_address(address, kind):
    assert address_kind(ip_address(address)) == kind


@given(st.ip_addresses(v=4))
def test_ipv4_address_inside_an_ipv6_one_is_judged_as_itself(address: IPv4Address):
    mapped = IPv6Address((0xFFFF << 32) + int(address))
    translated = IPv6Address((0x64FF9B << 96) + int(address))
    tunnelled = IPv6Address((0x2002 << 112) + (int(address) << 80) + 1)
    assert {address_kind(mapped), address_kind(translated), address_kind(tunnelled)} == {address_kind(address)}
    assert not is_public(address) or address.is_global


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.5", "::1", "images.test"])
def test_no_socket_is_made_for_an_address_that_may_not_be_connected_to(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with pytest.raises(BadImage, match=f"{re.escape(address)}'? is"):
        CheckedResolver(Names({}), is_public).socket((family, socket.SOCK_STREAM, 6, "", (address, 80)))
