"""The environment of `make test-vllm` has what its tests import before the first of them is collected."""

import ast
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from locks import ROOT
from packaging.utils import canonicalize_name

TESTS = ROOT / "tests"
LOCK = TESTS / "vllm_cpu" / "lock.txt"


def imported_on_loading(path: Path, seen: set[Path]) -> Iterator[str]:
    """Yield the packages that a test module imports at its top, those of shared test modules and plugins too."""
    if path in seen:
        return
    seen.add(path)
    names: list[str] = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytest_plugins":
            names += ast.literal_eval(node.value)
    for name in names:
        if shared := next((TESTS / "support").rglob(f"{name}.py"), None):
            yield from imported_on_loading(shared, seen)
        else:
            yield name.partition(".")[0]


@pytest.mark.slow
def test_lock_has_what_the_tests_on_vllm_import_as_pytest_loads_them():
    modules = [TESTS / "conftest.py", *sorted((TESTS / "vllm_cpu").glob("*.py"))]
    seen: set[Path] = set()
    packages = {name for module in modules for name in imported_on_loading(module, seen)}
    packages -= {*sys.stdlib_module_names, "rubricworks", "vllm"}
    locked = {canonicalize_name(line.partition("==")[0]) for line in LOCK.read_text().splitlines()}
    distributions = packages_distributions()
    missing = {
        name
        for name in packages
        if not {canonicalize_name(distribution) for distribution in distributions.get(name, [name])} & locked
    }
    assert {"pytest", "hypothesis", "torch"} <= packages
    assert missing == set(), f"add them to {LOCK.relative_to(ROOT)}"
