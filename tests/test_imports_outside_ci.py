"""Tests and benchmarks that CI does not run import what is there: a module that moves leaves none of them behind."""

import ast
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OUTSIDE = sorted(
    path
    for folder in ("tests/vllm_cpu", "tests/cluster", "tests/lmms_eval", "benchmarks", "examples")
    for path in (ROOT / folder).rglob("*.py")
)


@cache
def names_of(module: str) -> frozenset[str]:
    """Names that a module has after its import, by its text; empty for a namespace."""
    spec = importlib.util.find_spec(module)
    assert spec, module
    if spec.origin is None:
        return frozenset()
    names: set[str] = set()
    for node in ast.walk(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return frozenset(names)


def is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def missing_imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("rubricworks")]
            yield from (name for name in names if not is_module(name))
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("rubricworks"):
            if not is_module(node.module):
                yield node.module
                continue
            for alias in node.names:
                if alias.name not in names_of(node.module) and not is_module(f"{node.module}.{alias.name}"):
                    yield f"{node.module}.{alias.name}"


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_import_of_this_package_is_there(path):
    assert [*missing_imports(path)] == []
