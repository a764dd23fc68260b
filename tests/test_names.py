"""No variable is named `one`, `found` or `kept`: a name says what the variable holds."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("rubricworks", "components", "pipelines", "platform_api", "tests", "benchmarks", "examples")
NAMELESS = {"one", "found", "kept"}


def nameless(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines of parameters and of assigned variables whose name says nothing; fields of classes are no variables."""
    fields = {
        id(statement.target)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.arg in NAMELESS:
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in NAMELESS:
            if id(node) not in fields:
                yield node.lineno, node.id
        elif isinstance(node, ast.alias | ast.ExceptHandler):
            name = node.asname if isinstance(node, ast.alias) else node.name
            if name in NAMELESS:
                yield node.lineno, name


@pytest.mark.parametrize("folder", FOLDERS)
def test_variables_are_named_after_what_they_hold(folder):
    files = sorted((ROOT / folder).rglob("*.py"))
    lines = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in files
        for line, name in nameless(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert lines == []


@pytest.mark.parametrize(
    "source",
    ["for one in rows: pass", "[one for one in rows]", "found = 1", "def f(kept): pass", "lambda one: 1",
     "if found := 1: pass", "with open(x) as kept: pass", "try: pass\nexcept E as found: pass", "import a as one",
     "for name, one in rows: pass", "class A:\n  kept = 1"],
)  # fmt: skip
def test_such_a_variable_is_seen(source):
    ((_, name),) = nameless(ast.parse(source))
    assert name in NAMELESS


@pytest.mark.parametrize(
    "source", ["class A:\n  kept: int", "a.kept = 1", "f(found=1)", "row['one'] = 1", "print(one)"]
)
def test_fields_keys_and_arguments_are_no_variables(source):
    assert list(nameless(ast.parse(source))) == []
