"""Kinds of a recipe's fields, by what their text reaches; a name means one kind in all sections of all methods.

A text field of a recipe stands in one of these tables, or a test fails: whoever adds one says here what it reaches.
"""

from collections.abc import Sequence
from enum import StrEnum


class Reach(StrEnum):
    """Kind of thing that the text of a field reaches."""

    NOTHING = "nothing"
    ADDRESS = "address"
    VARIABLE = "variable"
    """Name of an environment variable, whose value is sent to the addresses of its section."""
    HOST = "host"
    FUNCTION = "function"
    SOURCE = "source"
    """Files or a bucket's objects, or a data set of the Hugging Face Hub."""
    MODEL = "model"
    """A built-in model's name, a folder, or a name on the Hugging Face Hub."""
    OPEN = "open"
    """Settings of any form, in which each text is judged by its own name."""


_NAMES = {
    Reach.ADDRESS: ("url", "replicas", "uri"),
    Reach.VARIABLE: ("api_key_env",),
    Reach.HOST: ("allowed_hosts",),
    Reach.FUNCTION: ("function",),
    Reach.SOURCE: (
        *("source", "sources", "held_out_source", "pictures"),
        *("responses", "baselines", "questions"),  # files of an evaluation
    ),
    Reach.MODEL: ("student", "generator", "folder", "vision_tower", "language_model", "encoder", "parser"),
    Reach.OPEN: ("arms", "changes", "stages", "extra_body"),
    Reach.NOTHING: (
        *("name", "description", "experiment", "arm", "pipeline", "model", "model_name", "revision", "prices"),
        *("prompt", "targets", "criterion", "splits", "opponent", "policy", "peer", "select_by", "models", "baseline"),
        *("captioner", "against", "set", "tasks", "verifiers", "judged_habit"),
        *("image", "question", "answer", "options", "task", "references", "open", "choice"),  # columns and templates
        *("add", "require", "forbid", "weights"),  # keys of rubrics
    ),
}
_KINDS = {name: reach for reach, names in _NAMES.items() for name in names}
BUILT_IN_MODELS = frozenset({"tiny", "tiny_text", "tiny_ar", "tiny_flow"})
ADMISSION = "admit"
"""Section in which a recipe admits what another one reaches."""


def reach_of(path: Sequence[str]) -> Reach | None:
    """Return what the text at a path reaches; None for a name that no table has, such as a key of one's own choice."""
    names = [part for part in ".".join(path).split(".") if not part.isdigit()]
    if names[-2:] == ["captioners", "model"]:
        return Reach.MODEL  # elsewhere a model that an endpoint serves, or that a file has answers of
    return _KINDS.get(names[-1]) if names else None
