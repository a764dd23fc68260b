"""Admission of a recipe from elsewhere: the hosts that it addresses, the variables sent to them, and its functions.

A recipe names servers and environment variables, and a run sends the one to the other: `url: https://host/v1` with
`api_key_env: OPENAI_API_KEY`, or `https://host/${NAME}`. A recipe of one's own is trusted. One that is read from the
model registry may be anybody's who can write there, so what it reaches is admitted by name in one's own recipe.

An address that begins with a variable, `${JUDGE_URL}/v1`, is that of the environment and needs no admission; the
variables that are sent there do, under the name `${JUDGE_URL}`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field

from rubricworks.environment import names_in

_ADDRESS_IN_VARIABLE = re.compile(r"(\$\{\w+\})(|/.*)", re.DOTALL)
"""Nothing but a path may follow: `${URL}@other.host` would be another host's address."""
_SCHEMES = ("http", "https")
_LOCAL = ("/", "./", "../", "file:")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_FUNCTION = re.compile(r"[\w.]+:\w+")


class Admission(BaseModel):
    """Hosts, variables and functions that a recipe reaches, or may reach."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hosts: dict[str, tuple[str, ...]] = Field(default={})
    """Host, or `${NAME}` for the address in a variable → variables that are sent there."""
    functions: tuple[str, ...] = ()
    """Python functions, `module:function`."""

    def lacking(self, needs: "Admission") -> "Admission":
        """Return the part of the needs that is not admitted."""
        hosts = {
            host: tuple(name for name in names if name not in self.hosts.get(host, ()))
            for host, names in needs.hosts.items()
        }
        return Admission(
            hosts={host: names for host, names in hosts.items() if names or host not in self.hosts},
            functions=tuple(one for one in needs.functions if one not in self.functions),
        )

    @property
    def is_empty(self) -> bool:
        return not self.hosts and not self.functions

    def as_yaml(self) -> str:
        """The admission as it is written in a recipe, on one line."""
        hosts = ", ".join(f"{_quoted(host)}: [{', '.join(names)}]" for host, names in self.hosts.items())
        functions = ", ".join(f'"{one}"' for one in self.functions)
        parts = [f"hosts: {{{hosts}}}" if hosts else "", f"functions: [{functions}]" if functions else ""]
        return f"{{{', '.join(part for part in parts if part)}}}"


def needs_of(settings: Any, *, of_stranger: bool = False) -> Admission:
    """Collect what a recipe's settings reach.

    Args:
        settings: configurations as JSON values.
        of_stranger: admit this machine's own servers and addresses in variables by name alone, too.
    """
    hosts: dict[str, set[str]] = {}
    functions: set[str] = set()
    for section in _sections(settings):
        texts = [(str(key).rpartition(".")[2], text) for key, text in _texts(section)]
        addresses = [text for key, text in texts if key != "function" and is_address(text)]
        functions |= {text for key, text in texts if key == "function" and _FUNCTION.fullmatch(text)}
        key = section.get("api_key_env")
        for text in addresses:
            host, variables = _reached(text)
            sent = {*variables, *([key] if isinstance(key, str) else [])}
            if sent or of_stranger or not (host.startswith("${") or host in _LOOPBACK):
                hosts.setdefault(host, set()).update(sent)
    return Admission(
        hosts={host: tuple(sorted(names)) for host, names in sorted(hosts.items())}, functions=tuple(sorted(functions))
    )


def nested_fields(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with fields such as `judge.url` in the section `judge`, as arms and changes write them.

    A field that the section has already, or that leads into no section, keeps its place and name.
    """
    nested: dict[str, Any] = {key: value for key, value in settings.items() if "." not in str(key)}
    copied: set[int] = set()  # sections of our own, which may be changed
    for key, value in settings.items():
        *outer, last = str(key).split(".")
        if not outer:
            continue
        section: Any = nested
        for name in outer:
            inner = section.get(name, {})
            if not isinstance(inner, Mapping):
                section = None
                break
            if id(inner) not in copied:
                inner = section[name] = dict(inner)
                copied.add(id(inner))
            section = inner
        if section is None or last in section:
            nested[key] = value
        else:
            section[last] = value
    return nested


def _sections(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        section = nested_fields(value)
        yield section
        for inner in section.values():
            yield from _sections(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _sections(inner)


def _texts(section: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Texts of a section, also those in its lists."""
    for key, value in section.items():
        for text in value if isinstance(value, list | tuple) else [value]:
            if isinstance(text, str):
                yield key, text


def is_address(text: str) -> bool:
    """Return True for a URL of HTTP, and for a text whose beginning is the environment's."""
    return _scheme(text) in _SCHEMES or (bool(names_in(text)) and not text.strip().startswith(_LOCAL))


def _scheme(text: str) -> str | None:
    """Scheme of a URL; None for other texts."""
    try:
        return urlsplit(text.strip()).scheme.lower()
    except ValueError:
        return None


def _reached(text: str) -> tuple[str, list[str]]:
    """Return the host of an address and the variables that are sent there."""
    text = text.strip()
    if match := _ADDRESS_IN_VARIABLE.fullmatch(text):
        return match[1], names_in(match[2])
    if _scheme(text) in _SCHEMES:
        parts = urlsplit(text)
        host = parts.netloc.rpartition("@")[2]
        return (host if "${" in host else (parts.hostname or "")), names_in(text)
    return text.partition("${")[0], names_in(text)  # a path, or a name on a hub


def _quoted(host: str) -> str:
    return host if re.fullmatch(r"[\w.-]+", host) else f'"{host}"'
