"""Address of the consumer of models. The URL is the operator's; where its name leads is up to whoever owns the name.

A name may lead anywhere tomorrow: to this machine, its network, the cloud's metadata service. So every connection goes
to an address that was checked, and the name is not resolved a second time. Admitted are public addresses, the address
that the URL itself spells out (`localhost` counts), and the networks that the operator names.
"""

from functools import partial
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.resolver import ThreadedResolver

from rubricworks.data.downloads.addresses import CheckedResolver, IPAddress, address_kind

Network = IPv4Network | IPv6Network
_NEVER = ("unspecified", "link-local", "multicast", "a cloud's own service")
"""Kinds of addresses that no consumer has: a metadata service gives away the machine's identity."""


class ConsumerAddress(NamedTuple):
    """The consumer's URL, and where it may lead."""

    url: str
    networks: tuple[Network, ...] = ()
    """Networks beyond the public internet that the consumer may lie in."""

    def client(self, resolver: AbstractResolver | None = None) -> aiohttp.ClientSession:
        """HTTP client of this consumer; it raises FetchRefused rather than connect to an address not admitted.

        Args:
            resolver: DNS resolver; the system's by default.
        """
        checked = CheckedResolver(resolver or ThreadedResolver(), partial(admits, self))
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(resolver=checked, socket_factory=checked.socket),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=10),
        )


def admits(consumer: ConsumerAddress, address: IPAddress) -> bool:
    """Return True if the consumer may have this address."""
    kind = address_kind(address)
    if kind in _NEVER:
        return False
    host = (urlsplit(consumer.url).hostname or "").rstrip(".")
    is_spelled_out = kind == "loopback" if host == "localhost" else _is_literal(host, address)
    return kind == "public" or is_spelled_out or any(address in network for network in consumer.networks)


def _is_literal(host: str, address: IPAddress) -> bool:
    try:
        return ip_address(host) == address
    except ValueError:
        return False
