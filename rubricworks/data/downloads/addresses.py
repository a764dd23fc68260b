"""Address checks for image downloads: only public IP addresses are connected to.

A host name can resolve to any address its owner likes, including this machine, its network and the cloud's metadata
service. So every resolved address is checked, and the connection goes to the checked address; the name is never
resolved a second time.
"""

import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

from rubricworks.data.downloads.hosts import FetchRefused

IPAddress = IPv4Address | IPv6Address

_SPECIAL_NETWORKS = [
    (ip_network(network), kind)
    for kind, networks in {
        # First, as they lie in networks of other kinds: Azure's, Alibaba's, Oracle's, Amazon's and Google's.
        "a cloud's own service": "168.63.129.16/32 100.100.100.200/32 192.0.0.192/32 fd00:ec2::/32 fd20:ce::/32",
        "unspecified": "0.0.0.0/8 ::/128",
        "loopback": "127.0.0.0/8 ::1/128",
        "private": "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 fec0::/10",
        "link-local": "169.254.0.0/16 fe80::/10",
        "shared by a provider's customers": "100.64.0.0/10",
        "multicast": "224.0.0.0/4 ff00::/8",
        "reserved": "192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4 "
        "2001::/23 2001:db8::/32 3fff::/20",
    }.items()
    for network in networks.split()
]
"""Networks by kind, from IANA's special-purpose registries; Python's own lists differ from release to release. The
clouds' are those of their documentation.
"""
_IPV6_UNICAST = ip_network("2000::/3")
_NAT64 = ip_network("64:ff9b::/96")
"""NAT64 prefix (RFC 6052): the last 32 bits are the IPv4 address reached."""


def address_kind(address: IPAddress) -> str:
    """Return `public` or the kind of special network; an IPv6 address that embeds an IPv4 address has its kind."""
    if isinstance(address, IPv6Address) and (embedded := _embedded_ipv4(address)):
        return address_kind(embedded)
    for network, kind in _SPECIAL_NETWORKS:
        if address in network:
            return kind
    allotted = isinstance(address, IPv4Address) or address in _IPV6_UNICAST
    return "public" if allotted and address.is_global else "reserved"


def is_public(address: IPAddress) -> bool:
    return address_kind(address) == "public"


class CheckedResolver(AbstractResolver):
    """Resolver that refuses a name if any of its addresses is not allowed."""

    def __init__(self, resolver: AbstractResolver, allowed: Callable[[IPAddress], bool]) -> None:
        self._resolver, self._allowed = resolver, allowed

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        answers = await self._resolver.resolve(host, port, family)
        for answer in answers:
            self._check(answer["host"])
        return answers

    async def close(self) -> None:
        await self._resolver.close()

    def socket(self, address_info: tuple[Any, ...]) -> socket.socket:
        """Socket factory, called right before connecting: aiohttp does not resolve literal addresses."""
        family, kind, protocol, _, address = address_info
        self._check(address[0])
        return socket.socket(family, kind, protocol)

    def _check(self, text: str) -> None:
        try:
            address = ip_address(text)
        except ValueError:
            raise FetchRefused(f"{text!r} is no address") from None
        if not self._allowed(address):
            raise FetchRefused(f"address {text} is {address_kind(address)}")


def _embedded_ipv4(address: IPv6Address) -> IPv4Address | None:
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour
