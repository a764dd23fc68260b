"""Names of tests are short enough for one line of a report, and no assertion compares long tuples of values."""

import ast
from pathlib import Path

TESTS = Path(__file__).parent
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(TESTS.rglob("test_*.py"))}


def test_names_have_at_most_80_characters():
    long = [
        f"{path.relative_to(TESTS)}: {node.name}"
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
        if len(node.name) > 80
    ]
    assert long == []


def test_no_assertion_compares_tuples_of_more_than_four_expressions():
    """A failure has to name the value that is wrong."""
    wide = [
        f"{path.relative_to(TESTS)}:{node.lineno}"
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare)
        if isinstance(node.test.left, ast.Tuple) and len(node.test.left.elts) > 4
    ]
    assert wide == []
