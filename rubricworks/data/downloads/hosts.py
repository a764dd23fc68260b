"""Allow-list of hosts that images are fetched from: the recipe's `data.allowed_hosts`, and no others."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from yarl import URL

from rubricworks.data.images import BadImage
from rubricworks.data.source_entries import Entries, RejectedEntry
from rubricworks.errors import UserError

_PORTS = (80, 443)
_LABEL = re.compile(r"[a-z0-9_-]{1,63}")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_LONGEST_URL = 8_192


class FetchRefused(BadImage):
    """A URL, host or address is not fetched from; the message holds no secret."""


class AllowedHosts:
    """Allow-list of `images.example.org`, `*.example.org` (every subdomain), `host:8080` (ports but 80 and 443)."""

    def __init__(self, hosts: Iterable[str]) -> None:
        """Raises ValueError for an entry in another form."""
        self._entries = [_parse_entry(text) for text in hosts]

    def check(self, url: URL) -> None:
        """Raise FetchRefused unless the URL's host and port are allowed."""
        host = _host(url)
        ports = [entry.port for entry in self._entries if entry.matches(host)]
        if not ports:
            raise FetchRefused(f"host {host} is not in data.allowed_hosts")
        if url.port not in ports and not (None in ports and url.port in _PORTS):
            raise FetchRefused(f"port {url.port} is not allowed: {host}:{url.port} is not in data.allowed_hosts")

    def screen(self, entries: Entries, source: str) -> Entries:
        """Pass entries through; reject URLs on hosts that are not allowed, and repeated URLs.

        Raises:
            UserError: after the last entry, if there were URLs and none was on an allowed host.
        """
        refused: Counter[str] = Counter()
        accepted: set[str] = set()
        for entry in entries:
            if isinstance(entry, RejectedEntry) or entry.url is None:
                yield entry
                continue
            url = parse_url(entry.url)
            try:
                self.check(url)
            except FetchRefused as error:
                refused[_host_and_port(url)] += 1
                yield RejectedEntry(source=entry.source, reason=str(error))
                continue
            repeated = entry.url in accepted
            accepted.add(entry.url)
            if repeated:
                yield RejectedEntry(source=entry.source, reason="the same URL stands in the source already")
            else:
                yield entry
        if refused and not accepted:
            raise UserError(_no_host_allowed_message(source, refused, any_allowed=bool(self._entries)))


def parse_url(text: str) -> URL:
    """Parse a URL that may be fetched once its host is allowed.

    Raises:
        FetchRefused: the scheme is not http or https, the URL holds a user or password, or its host is an IP address.
    """
    if len(text) > _LONGEST_URL:
        raise FetchRefused(f"the URL is longer than {_LONGEST_URL:,} characters")
    try:
        url = URL(text)
    except ValueError:
        raise FetchRefused("not a URL") from None
    if url.scheme not in ("http", "https") or not url.raw_host:
        raise FetchRefused("not an http:// or https:// URL")
    if url.user is not None or url.password is not None:
        raise FetchRefused("the URL holds a user or password")
    if not _is_host_name(_host(url)):
        raise FetchRefused(f"host {url.raw_host} is not a name; addresses are not fetched from")
    return url


class _Entry(NamedTuple):
    name: str
    subdomains: bool
    """Matches the subdomains of the name, not the name itself."""
    port: int | None

    def matches(self, host: str) -> bool:
        return host.endswith(f".{self.name}") if self.subdomains else host == self.name


def _parse_entry(text: str) -> _Entry:
    subdomains = text.startswith("*.")
    try:
        url = URL(f"http://{text.removeprefix('*.')}")
        plain = url.authority and url == url.origin() and text[-1] not in "/:"
        fits = plain and _is_host_name(_host(url)) and not (subdomains and "." not in _host(url))
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"{text!r} names no host; write images.example.org, *.example.org for every host below it, "
            "or host:8080 for another port"
        )
    return _Entry(_host(url), subdomains, url.explicit_port)


def _host(url: URL) -> str:
    return (url.raw_host or "").removesuffix(".")


def _is_host_name(host: str) -> bool:
    """Return True for a host name, False for an IP address in any spelling.

    A host whose last label is a number is parsed as IPv4 (2130706433, 0x7f.1).
    """
    labels = host.split(".")
    return len(host) < 254 and all(map(_LABEL.fullmatch, labels)) and not _NUMBER.fullmatch(labels[-1])


def _host_and_port(url: URL) -> str:
    return _host(url) if url.port in _PORTS else f"{_host(url)}:{url.port}"


def _no_host_allowed_message(source: str, refused: Counter[str], *, any_allowed: bool) -> str:
    first = [host for host, _ in refused.most_common(5)]
    listed = ", ".join(f"{host} ({refused[host]})" for host in first)
    more = f" and {len(refused) - len(first)} more" if len(refused) > len(first) else ""
    return (
        f"{source}: its images lie on {listed}{more}, and data.allowed_hosts names "
        f"{'none of these' if any_allowed else 'no host'}, so nothing is fetched; to fetch them, write "
        f"`allowed_hosts: [{', '.join(first)}]` in the recipe's data section"
    )
