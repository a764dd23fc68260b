"""Proxy of a URL, from HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY as curl, Go and requests read them.

NO_PROXY is a list of names, each with its subdomains (with or without a leading dot or `*.`), addresses, networks
(`10.0.0.0/8`, `fd00::/8`), any of them with a port, or `*`. Names are not resolved.
"""

import ipaddress
import os
import re
import urllib.request

from yarl import URL

from rubricworks.errors import UserError

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def proxy_of(url: URL | str) -> URL | None:
    """Proxy for a URL, or None.

    Raises:
        UserError: the variable names a proxy that is not one of HTTP.
    """
    url = URL(url)
    proxies = urllib.request.getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    if not proxy or _is_excepted(url):
        return None
    address = URL(proxy if "://" in proxy else f"http://{proxy}")
    if address.scheme not in ("http", "https") or not address.host:
        variable = f"{url.scheme.upper()}_PROXY" if proxies.get(url.scheme) else "ALL_PROXY"
        raise UserError(
            f"{variable} names no proxy that can be used ({address.scheme}://…); name one of http://, or put "
            f"{url.host} into NO_PROXY"
        )
    return address


def _is_excepted(url: URL) -> bool:
    if not urllib.request.getproxies_environment():  # settings of macOS or Windows
        return bool(urllib.request.proxy_bypass(url.host or ""))
    entries = re.split(r"[,\s]+", os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or "")
    host = (url.host or "").lower().rstrip(".")
    return any(_matches(entry.lower(), host, url.port) for entry in entries if entry)


def _matches(entry: str, host: str, port: int | None) -> bool:
    """Return True if an entry of NO_PROXY names this host."""
    name, entry_port = _split_port(entry)
    if entry_port and entry_port != str(port):
        return False
    if name == "*":
        return True
    address, network = _address(host), _network(name)
    if address is not None or network is not None:
        return address is not None and network is not None and address in network
    name = name.removeprefix("*").removeprefix(".").rstrip(".")
    return bool(name) and (host == name or host.endswith(f".{name}"))


def _split_port(entry: str) -> tuple[str, str]:
    """Name and port of an entry; an address of IPv6 has a port only after brackets."""
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name + (rest if rest.startswith("/") else ""), rest.removeprefix(":") if rest.startswith(":") else ""
    if entry.count(":") > 1:
        return entry, ""
    name, _, port = entry.partition(":")
    return name, port


def _address(host: str) -> _Address | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _network(name: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(name, strict=False)
    except ValueError:
        return None
