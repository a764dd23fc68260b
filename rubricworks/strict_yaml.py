"""YAML of configuration files: no doubled keys, no aliases that loop or multiply, bounded depth and numbers.

Booleans are those of YAML 1.2, so that `off` is a word, as in `policy.reward.pointability: off`.
"""

import re
from typing import Any, NamedTuple

import yaml

_MAX_DEPTH = 64
_MAX_VALUES = 200_000
_LONG_TEXT = 100
"""Characters for which a text counts as one value more."""
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


class _Size:
    """Depth and values of a document as its events come, with aliases written out."""

    def __init__(self, max_values: int) -> None:
        self._max_values = max_values
        self._sizes: dict[str, int] = {}
        """Anchor → values below it."""
        self._open: list[tuple[str | None, int]] = []
        """Anchor and values so far of each collection that has not ended."""

    def add(self, event: yaml.Event) -> None:
        """Count an event.

        Raises:
            YamlError: the document is too deep or has too many values, or an alias stands inside itself.
        """
        line = _line(event.start_mark)
        if isinstance(event, yaml.CollectionStartEvent):
            self._open.append((event.anchor, 1))
            if len(self._open) > _MAX_DEPTH:
                raise YamlError(f"more than {_MAX_DEPTH} sections and lists inside each other", line)
            return
        if isinstance(event, yaml.AliasEvent):
            assert event.anchor is not None
            if any(anchor == event.anchor for anchor, _ in self._open):
                raise YamlError(f"the alias *{event.anchor} stands inside &{event.anchor} itself", line)
            size = self._sizes.get(event.anchor, 1)
        elif isinstance(event, yaml.ScalarEvent):
            size = 1 + len(event.value) // _LONG_TEXT
            if event.anchor:
                self._sizes[event.anchor] = size
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size = self._open.pop()
            if anchor:
                self._sizes[anchor] = size
        else:
            return
        if self._open:
            anchor, so_far = self._open[-1]
            self._open[-1] = anchor, so_far + size
            if so_far + size > self._max_values:
                characters = f"{self._max_values * _LONG_TEXT:,} characters"
                written = "once the aliases are written out"
                raise YamlError(f"more than {self._max_values:,} values, or {characters}, {written}", line)


class _Loader(yaml.SafeLoader):
    def __init__(self, text: str | bytes, max_values: int) -> None:
        super().__init__(text)
        self._size = _Size(max_values)

    def get_event(self) -> Any:
        """The next event, checked before anything recursive sees it."""
        event = super().get_event()
        self._size.add(event)
        return event

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


def parse_yaml(text: str | bytes, max_values: int = _MAX_VALUES) -> YamlDocument:
    """Parse the one document of a text.

    Args:
        max_values: the most values with every alias written out: a short text of nested aliases stands for any number.
    Raises:
        YamlError: it is not YAML, or breaks one of this module's bounds.
    """
    try:
        loader = _Loader(text, max_values)
        try:
            root = loader.get_single_node()
            _check_nodes(root)
            return YamlDocument(root, None if root is None else loader.construct_document(root))
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or error
        raise YamlError(" ".join(str(problem).split()), _line(getattr(error, "problem_mark", None))) from error


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
