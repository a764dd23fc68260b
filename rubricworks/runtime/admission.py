"""Admission of a recipe from elsewhere: hosts that it addresses, variables sent to them, places, functions, tasks.

A recipe names servers and environment variables, and a run sends the one to the other: `url: https://host/v1` with
`api_key_env: OPENAI_API_KEY`, or `https://host/${NAME}`. A recipe of one's own is trusted. One that is read from the
model registry may be anybody's who can write there, so what it reaches is admitted by name in one's own recipe.

A host is admitted with its port, `judge.example:8000`; without one, at the port of its scheme alone (80, 443).
Variables are sent there by https, and by http where the entry says so: `http://judge.example:8000`. An address that
begins with a variable, `${JUDGE_URL}/v1`, is that of the environment and needs no admission; the variables that are
sent there do, under the name `${JUDGE_URL}`. Where files are read, the variable itself is admitted so, since
`${HOME}/.ssh` is nobody's data. A place is admitted with all that is below it: a folder, a bucket, `hf://organisation`.
Code is admitted by its exact name: a function, and a folder of lmms-eval's tasks.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

from rubricworks.environment import names_in
from rubricworks.runtime.recipe_fields import (
    SCHEMES,
    is_address,
    names_task_folder,
    places_in,
    reaches_files,
    scheme_of,
)

_ADDRESS_IN_VARIABLE = re.compile(r"(\$\{\w+\})(|/.*)", re.DOTALL)
"""Nothing but a path may follow: `${URL}@other.host` would be another host's address."""
_LOOPBACK = re.compile(r"(localhost|127\.0\.0\.1)(:\d+)?|::1|\[::1\]:\d+")
_UNENCRYPTED = "http://"
SCENE_WORLD = ("${RUBRICWORKS_WORLD_URL}", "${RUBRICWORKS_WORLD_DIR}")
"""Places of the scene world, which each run sets for itself."""
_FUNCTION = re.compile(r"[\w.]+:\w+")


class Admission(BaseModel):
    """Hosts, variables and functions that a recipe reaches, or may reach."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hosts: dict[str, tuple[str, ...]] = Field(default={})
    """Host, with its port if that is not its scheme's, or `${NAME}` for the address in a variable → variables that are
    sent there: by https, unless the host begins with `http://`.
    """
    places: tuple[str, ...] = ()
    """Folders, buckets and organisations or repositories of the Hugging Face Hub, with all that is below them."""
    functions: tuple[str, ...] = ()
    """Python functions, `module:function`."""
    task_folders: tuple[str, ...] = ()
    """Folders of lmms-eval's task definitions. Their code runs, so files below them are not admitted."""

    @field_validator("hosts")
    @classmethod
    def _hosts_alone(cls, hosts: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """Refuse an entry that no address can match."""
        for host in hosts:
            if host.startswith(("https://", _UNENCRYPTED)) and "/" in host.removeprefix(_UNENCRYPTED):
                raise ValueError(
                    f"{host}: write a host and its port, and http:// before it to send variables unencrypted"
                )
        return {host.removesuffix(":80") if host.startswith(_UNENCRYPTED) else host: hosts[host] for host in hosts}

    def lacking(self, needs: "Admission") -> "Admission":
        """Return the part of the needs that is not admitted."""
        hosts = {
            host: tuple(name for name in names if name not in self.hosts.get(host, ()))
            for host, names in needs.hosts.items()
        }
        return Admission(
            hosts={host: names for host, names in hosts.items() if names or not self._names_host(host)},
            places=tuple(place for place in needs.places if not self.admits_place(place)),
            functions=tuple(function for function in needs.functions if function not in self.functions),
            task_folders=tuple(folder for folder in needs.task_folders if folder not in self.task_folders),
        )

    def _names_host(self, host: str) -> bool:
        return host in self.hosts or f"{_UNENCRYPTED}{host}" in self.hosts

    def admits_place(self, place: str) -> bool:
        """Return True for a place that is admitted, or below one; a variable may lead anywhere, so it is below none."""
        parts = place.split("/")
        if ".." in parts or "%" in place or "\\" in place:
            return False
        admitted = [prefix.rstrip("/").split("/") for prefix in self.places]
        return any(
            parts[: len(prefix)] == prefix and not names_in("/".join(parts[len(prefix) :])) for prefix in admitted
        )

    @property
    def is_empty(self) -> bool:
        return not (self.hosts or self.places or self.functions or self.task_folders)

    def as_yaml(self) -> str:
        """The admission as it is written in a recipe, on one line."""
        hosts = ", ".join(f"{_quoted(host)}: [{', '.join(names)}]" for host, names in self.hosts.items())
        parts = [f"hosts: {{{hosts}}}"] if hosts else []
        for name in ("places", "functions", "task_folders"):
            if values := getattr(self, name):
                parts.append(f"{name}: [{', '.join(map(json.dumps, values))}]")
        return f"{{{', '.join(parts)}}}"


def needs_of(settings: Any, *, of_stranger: bool = False) -> Admission:
    """Collect what a recipe's settings reach.

    Args:
        settings: configurations as JSON values.
        of_stranger: admit this machine's own servers and addresses in variables by name alone, too.
    """
    hosts: dict[str, set[str]] = {}
    places, functions, task_folders = set[str](), set[str](), set[str]()
    for path, section in _sections(settings):
        is_code = names_task_folder(path, section)
        for field, text in _texts(section):
            if is_code and field == "source":
                task_folders.add(text)
            else:
                places.update(places_in((*path, field), text))
        texts = [(str(key).rpartition(".")[2], text) for key, text in _texts(section)]
        is_served = isinstance(section.get("serve"), Mapping)  # at an address that the run itself sets
        addresses = [(name, text) for name, text in texts if name != "function" and is_address(text) and not is_served]
        functions |= {text for name, text in texts if name == "function" and _FUNCTION.fullmatch(text)}
        key = section.get("api_key_env")
        for name, text in addresses:
            host, variables = _reached(text)
            sent = {*variables, *([key] if isinstance(key, str) else [])}
            is_given = host in SCENE_WORLD or (host.startswith("${") and not reaches_files((*path, name)))
            if sent or of_stranger or not (is_given or _LOOPBACK.fullmatch(host)):
                unencrypted = sent and scheme_of(text) == "http" and not _LOOPBACK.fullmatch(host)
                hosts.setdefault(f"{_UNENCRYPTED}{host}" if unencrypted else host, set()).update(sent)
    return Admission(
        hosts={host: tuple(sorted(names)) for host, names in sorted(hosts.items())},
        places=tuple(sorted(places)),
        functions=tuple(sorted(functions)),
        task_folders=tuple(sorted(task_folders)),
    )


def nested_fields(settings: Mapping[str, object]) -> dict[str, object]:
    """Return settings with fields such as `judge.url` in the section `judge`, as arms and changes write them.

    A field that the section has already, or that leads into no section, keeps its place and name.
    """
    nested: dict[str, object] = {key: value for key, value in settings.items() if "." not in str(key)}
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


def _sections(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Mapping[str, object]]]:
    """Sections with their paths, a list's by number."""
    if isinstance(value, Mapping):
        section = nested_fields(value)
        yield path, section
        for key, inner in section.items():
            yield from _sections(inner, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from _sections(inner, (*path, str(number)))


def _texts(section: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Texts of a section, also those in its lists."""
    for key, value in section.items():
        for text in value if isinstance(value, list | tuple) else [value]:
            if isinstance(text, str):
                yield key, text


def _reached(text: str) -> tuple[str, list[str]]:
    """Return the host of an address and the variables that are sent there."""
    text = text.strip()
    if match := _ADDRESS_IN_VARIABLE.fullmatch(text):
        return match[1], names_in(match[2])
    if scheme_of(text) in SCHEMES:
        parts = urlsplit(text)
        host = parts.netloc.rpartition("@")[2]
        return (host if "${" in host else _without_default_port(parts)), names_in(text)
    return text.partition("${")[0], names_in(text)  # a path, or a name on a hub


def _without_default_port(parts: SplitResult) -> str:
    """Return the host of a URL with its port, unless that is its scheme's."""
    host = parts.hostname or ""
    try:
        port = parts.port
    except ValueError:
        return parts.netloc.rpartition("@")[2]
    if port in (None, SCHEMES[parts.scheme.lower()]):
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _quoted(host: str) -> str:
    return host if re.fullmatch(r"[\w.-]+", host) else f'"{host}"'
