"""Kinds of a recipe's fields, by what their text reaches. A name has the same kind in all sections of all methods.

A text field of a recipe stands in one of these tables, or a test fails: whoever adds one says here what it reaches.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from urllib.parse import urlsplit

from rubricworks.environment import names_in


class Reach(StrEnum):
    """Kind of thing that the text of a field reaches."""

    NOTHING = "nothing"
    ADDRESS = "address"
    VARIABLE = "variable"
    """Name of an environment variable, whose value is sent to the addresses of its section."""
    HOST = "host"
    FUNCTION = "function"
    """Code that the run executes: a function, or a program that it serves."""
    SOURCE = "source"
    """Files or a bucket's objects, or a data set of the Hugging Face Hub."""
    MODEL = "model"
    """A built-in model's name, a folder, or a name on the Hugging Face Hub."""
    OPEN = "open"
    """Settings of any form, in which each text is judged by its own name."""


_NAMES = {
    Reach.ADDRESS: ("url", "uri"),
    Reach.VARIABLE: ("api_key_env",),
    Reach.HOST: ("allowed_hosts",),
    Reach.FUNCTION: ("function", "command"),
    Reach.SOURCE: (
        *("source", "sources", "held_out_source", "pictures"),
        *("responses", "baselines", "questions", "agreement"),  # files of an evaluation
    ),
    Reach.MODEL: ("student", "generator", "folder", "vision_tower", "language_model", "encoder", "parser"),
    Reach.OPEN: ("arms", "changes", "stages", "extra_body", "arguments"),
    Reach.NOTHING: (
        *("name", "description", "experiment", "arm", "pipeline", "model", "model_name", "revision", "prices"),
        *("prompt", "targets", "criterion", "splits", "opponent", "policy", "peer", "select_by", "models", "baseline"),
        *("captioner", "against", "set", "tasks", "verifiers", "judged_habit", "penalties"),
        *("image", "question", "answer", "options", "task", "references", "open", "choice"),  # columns and templates
        *("add", "require", "forbid", "weights"),  # keys of rubrics
        *("stage", "engine"),  # of a served model
    ),
}
_KINDS = {name: reach for reach, names in _NAMES.items() for name in names}
_OF_SERVED = {"model": Reach.MODEL, "image": Reach.FUNCTION}
"""Kinds of fields of a model that the run serves; elsewhere their names mean something else."""
BUILT_IN_MODELS = frozenset({"tiny", "tiny_text", "tiny_ar", "tiny_flow"})
ADMISSION = "admit"
"""Section in which a recipe admits what another one reaches."""


def reach_of(path: Sequence[str]) -> Reach | None:
    """Return what the text at a path reaches; None for a name that no table has, such as a user's own key."""
    names = [part for part in ".".join(path).split(".") if not part.isdigit()]
    if names[-2:] == ["captioners", "model"]:
        return Reach.MODEL  # elsewhere a model that an endpoint serves, or that a file has answers of
    if names[-2:-1] == ["prompts"]:
        return Reach.SOURCE  # files of the user's own prompts
    if "serve" in names[-3:-1] and names[-1] in _OF_SERVED:
        return _OF_SERVED[names[-1]]
    return _KINDS.get(names[-1]) if names else None


def reaches_files(path: Sequence[str]) -> bool:
    """Return True for a field whose text may be a folder or a file."""
    return reach_of(path) in (Reach.SOURCE, Reach.MODEL)


SCHEMES = {"http": 80, "https": 443}
"""Scheme of an address → its port."""
HUB = "hf://"
"""Beginning of a place on the Hugging Face Hub: `hf://organisation`, or `hf://organisation/name`."""
_KIND_OF_SOURCE = re.compile(r"[a-z]+:(?!//)")
"""Kind before a source, such as `urls:`."""
_LOCAL = ("/", "./", "../", "file:")
_PLACE = re.compile(r"(?!https?://)[a-z][a-z0-9+.-]*://|[/~]|\.\.?/|(file|sqlite):", re.IGNORECASE)


def is_address(text: str) -> bool:
    """Return True for an HTTP URL, and for a text that begins with an environment variable."""
    return scheme_of(text) in SCHEMES or (bool(names_in(text)) and not text.strip().startswith(_LOCAL))


def scheme_of(text: str) -> str | None:
    """Scheme of a URL; None for other texts."""
    try:
        return urlsplit(text.strip()).scheme.lower()
    except ValueError:
        return None


def without_kind(source: str) -> str:
    """Return a source without its prefix, such as `urls:`."""
    return _KIND_OF_SOURCE.sub("", source.strip(), count=1)


def places_in(path: Sequence[str], text: str) -> list[str]:
    """Return the places that the text of a field reaches: folders, buckets, `hf://organisation/name`."""
    bare = without_kind(text)
    candidates = dict.fromkeys((text.strip(), bare))
    if places := [candidate for candidate in candidates if _PLACE.match(candidate) or leads_upwards(candidate)]:
        return places
    reach = reach_of(path)
    is_file = reach is Reach.SOURCE and "/" not in bare
    is_name = reaches_files(path) and bare and not is_file and bare not in BUILT_IN_MODELS
    if not is_name or is_address(text):
        return []
    return [HUB + "/".join(part.partition("@")[0] for part in bare.split("/")[:2])]


def leads_upwards(place: str) -> bool:
    """Return True for a path with `..` in it."""
    return ".." in re.split(r"[/\\]", place)


def names_task_folder(path: Sequence[str], section: Mapping[str, object]) -> bool:
    """Return True for a section of benchmarks whose `source` is a folder of lmms-eval's task definitions: code.

    Args:
        path: path of the section.
    """
    names = [part for part in ".".join(path).split(".") if not part.isdigit()]
    return names[-1:] == ["benchmarks"] and section.get("harness") != "questions"
