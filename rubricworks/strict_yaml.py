"""YAML of configuration files: no doubled keys, no aliases that loop or multiply, bounded depth and numbers.

Booleans are those of YAML 1.2, so that `off` is a word, as in `policy.pointability: off`.
"""

import re
from typing import Any, NamedTuple

import yaml

_MAX_DEPTH = 64
_MAX_NODES = 200_000
"""Nodes with every alias written out: a short text of nested aliases stands for any number."""
_MAX_DIGITS = 40
_BOOL = "tag:yaml.org,2002:bool"
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


class YamlError(ValueError):
    """Mistake in a YAML text, with the line that it stands on."""

    def __init__(self, message: str, line: int | None) -> None:
        super().__init__(message)
        self.line = line


class YamlDocument(NamedTuple):
    """A parsed text."""

    root: yaml.Node | None
    """Tree of nodes, which know their lines."""
    value: Any


class _Loader(yaml.SafeLoader):
    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, OverflowError) as error:  # such as a date in a 13th month
            raise YamlError(f"{node.value!r} cannot be read: {error}", _line(node.start_mark)) from error


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOL]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_BOOL, re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))


def parse_yaml(text: str | bytes) -> YamlDocument:
    """Parse the one document of a text.

    Raises:
        YamlError: it is not YAML, or breaks one of this module's bounds.
    """
    try:
        _check_size(text)
        loader = _Loader(text)
        try:
            root = loader.get_single_node()
            _check_nodes(root)
            return YamlDocument(root, None if root is None else loader.construct_document(root))
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or error
        raise YamlError(" ".join(str(problem).split()), _line(getattr(error, "problem_mark", None))) from error


def _check_size(text: str | bytes) -> None:
    """Check depth and aliases on the events, before anything recursive sees the text."""
    sizes: dict[str, int] = {}
    """Anchor → nodes below it, with aliases written out."""
    open_nodes: list[tuple[str | None, int]] = []
    """Anchor and nodes so far of each collection that has not ended."""
    for event in yaml.parse(text, Loader=_Loader):
        line = _line(event.start_mark)
        if isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, 1))
            if len(open_nodes) > _MAX_DEPTH:
                raise YamlError(f"more than {_MAX_DEPTH} sections and lists inside each other", line)
            continue
        if isinstance(event, yaml.AliasEvent):
            assert event.anchor is not None
            if any(anchor == event.anchor for anchor, _ in open_nodes):
                raise YamlError(f"the alias *{event.anchor} stands inside &{event.anchor} itself", line)
            size = sizes.get(event.anchor, 1)
        elif isinstance(event, yaml.ScalarEvent):
            size = 1
            if event.anchor:
                sizes[event.anchor] = size
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size = open_nodes.pop()
            if anchor:
                sizes[anchor] = size
        else:
            continue
        if open_nodes:
            anchor, so_far = open_nodes[-1]
            open_nodes[-1] = anchor, so_far + size
            if so_far + size > _MAX_NODES:
                raise YamlError(f"more than {_MAX_NODES:,} values once the aliases are written out", line)


def _check_nodes(root: yaml.Node | None) -> None:
    """Check keys and numbers of every node, each once."""
    nodes, seen = [] if root is None else [root], set()
    while nodes:
        node = nodes.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            lines: dict[str, int | None] = {}
            for key, value in node.value:
                nodes += [key, value]
                if isinstance(key, yaml.ScalarNode):
                    line = _line(key.start_mark)
                    if key.value in lines:
                        raise YamlError(f"{key.value} stands there twice, first in line {lines[key.value]}", line)
                    lines[key.value] = line
        elif isinstance(node, yaml.SequenceNode):
            nodes += node.value
        elif node.tag in _NUMBERS and len(node.value) > _MAX_DIGITS:
            raise YamlError(
                f"a number of {len(node.value):,} digits; the longest has {_MAX_DIGITS}", _line(node.start_mark)
            )


def _line(mark: Any) -> int | None:
    return None if mark is None else mark.line + 1
