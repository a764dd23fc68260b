"""From which hosts images are fetched: those that the recipe names, and no others."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from yarl import URL

from rubricworks.data.found import Found, Rejected
from rubricworks.data.images import BadImage
from rubricworks.errors import UserError

_PORTS = (80, 443)
_LABEL = re.compile(r"[a-z0-9_-]{1,63}")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_LONGEST_URL = 8_192


class Refused(BadImage):
    """A URL, a host or an address that nothing is fetched from; the message says why and holds no secret."""


class AllowedHosts:
    """`images.example.org`, `*.example.org` for every host below it, `host:8080` for a port other than 80 and 443."""

    def __init__(self, entries: Iterable[str]) -> None:
        """Raises ValueError for an entry that is none of these."""
        self._entries = [_entry(text) for text in entries]

    def check(self, url: URL) -> None:
        """Raises Refused unless images may be fetched from the URL's host and port."""
        host = _host(url)
        ports = [entry.port for entry in self._entries if entry.names(host)]
        if not ports:
            raise Refused(f"host {host} is not in data.allowed_hosts")
        if url.port not in ports and not (None in ports and url.port in _PORTS):
            raise Refused(f"port {url.port} is not allowed: {host}:{url.port} is not in data.allowed_hosts")

    def screen(self, found: Found, source: str) -> Found:
        """What was found, the URLs that will not be fetched as Rejected; a URL is taken once.

        Raises:
            UserError: after the last, if there were URLs, and none on an allowed host.
        """
        refused: Counter[str] = Counter()
        taken: set[str] = set()
        for one in found:
            if isinstance(one, Rejected) or one.url is None:
                yield one
                continue
            url = parse_url(one.url)
            try:
                self.check(url)
            except Refused as error:
                refused[_named(url)] += 1
                yield Rejected(source=one.source, reason=str(error))
                continue
            again = one.url in taken
            taken.add(one.url)
            yield Rejected(source=one.source, reason="the same URL stands in the source already") if again else one
        if refused and not taken:
            raise UserError(_nothing_allowed(source, refused, some=bool(self._entries)))


def parse_url(text: str) -> URL:
    """A URL that could be fetched if its host is allowed.

    Raises:
        Refused: it is not of http or https, holds a user or password, or names no host but an address.
    """
    if len(text) > _LONGEST_URL:
        raise Refused(f"the URL is longer than {_LONGEST_URL:,} characters")
    try:
        url = URL(text)
    except ValueError:
        raise Refused("not a URL") from None
    if url.scheme not in ("http", "https") or not url.raw_host:
        raise Refused("not an http:// or https:// URL")
    if url.user is not None or url.password is not None:
        raise Refused("the URL holds a user or password")
    if not _is_name(_host(url)):
        raise Refused(f"host {url.raw_host} is not a name; addresses are not fetched from")
    return url


class _Entry(NamedTuple):
    name: str
    below: bool
    """The hosts below the name, not the name itself."""
    port: int | None

    def names(self, host: str) -> bool:
        return host.endswith(f".{self.name}") if self.below else host == self.name


def _entry(text: str) -> _Entry:
    below = text.startswith("*.")
    try:
        url = URL(f"http://{text.removeprefix('*.')}")
        plain = url.authority and url == url.origin() and text[-1] not in "/:"
        fits = plain and _is_name(_host(url)) and not (below and "." not in _host(url))
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"{text!r} names no host; write images.example.org, *.example.org for every host below it, "
            "or host:8080 for another port"
        )
    return _Entry(_host(url), below, url.explicit_port)


def _host(url: URL) -> str:
    return (url.raw_host or "").removesuffix(".")


def _is_name(host: str) -> bool:
    """Not an address, in whatever spelling: one whose last label is a number is read as IPv4 (2130706433, 0x7f.1)."""
    labels = host.split(".")
    return len(host) < 254 and all(map(_LABEL.fullmatch, labels)) and not _NUMBER.fullmatch(labels[-1])


def _named(url: URL) -> str:
    return _host(url) if url.port in _PORTS else f"{_host(url)}:{url.port}"


def _nothing_allowed(source: str, refused: Counter[str], *, some: bool) -> str:
    first = [host for host, _ in refused.most_common(5)]
    told = ", ".join(f"{host} ({refused[host]})" for host in first)
    more = f" and {len(refused) - len(first)} more" if len(refused) > len(first) else ""
    return (
        f"{source}: its images lie on {told}{more}, and data.allowed_hosts names "
        f"{'none of these' if some else 'no host'}, so nothing is fetched; to fetch them, write "
        f"`allowed_hosts: [{', '.join(first)}]` in the recipe's data section"
    )
