"""Prints the test files that concern a file of the project (`make test-of FILE=rubricworks/rl/advantages.py`).

They are those at the same path below `tests/`, and those that import the module, a name that it defines, or a
module of `tests/support` that does.
"""

import ast
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
AT_THE_TOP = ("components", "pipelines", "platform_api", "recipes")


def tests_of(file: str) -> list[str]:
    """Paths of test files, relative to the root of the project.

    Raises:
        SystemExit: there is no such file, or no test concerns it.
    """
    path = (ROOT / file).resolve()
    if not path.is_file():
        raise SystemExit(f"{file} is no file of this project")
    relative = path.relative_to(ROOT)
    if relative.parts[0] == "tests":
        if path.name.startswith("test_"):
            return [str(relative)]
        module = path.stem
    else:
        parts = relative.with_suffix("").parts
        module = ".".join(("rubricworks", *parts) if parts[0] in AT_THE_TOP else parts).removesuffix(".__init__")
    inside = Path(*relative.parts[1:]) if relative.parts[0] == "rubricworks" else relative
    mirrored = TESTS / inside.parent / f"test_{inside.stem}.py"
    support = {path.stem for path in _files() if not path.name.startswith("test_") and module in _imports(path)}
    tests = {
        path
        for path in _files()
        if path.name.startswith("test_") and (path == mirrored or _imports(path) & {module, *support})
    }
    if not tests:
        raise SystemExit(f"no test imports {module}; `make test-fast` runs those that know no file")
    return sorted(str(path.relative_to(ROOT)) for path in tests)


@cache
def _files() -> list[Path]:
    return sorted(TESTS.rglob("*.py"))


@cache
def _imports(path: Path) -> frozenset[str]:
    """Modules that a file imports, and those that define the names it imports from a package."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module)
            for alias in node.names:
                modules |= {f"{node.module}.{alias.name}", _definition(node.module, alias.name)}
    return frozenset(modules)


@cache
def _definition(package: str, name: str) -> str:
    """The module that a package's `__init__` takes a name from; the package itself if it takes it from none."""
    parts = package.split(".")
    top = parts[1:] if parts[:1] == ["rubricworks"] and parts[1:2] and parts[1] in AT_THE_TOP else parts
    init = ROOT.joinpath(*top, "__init__.py")
    if init.is_file():
        for node in ast.walk(ast.parse(init.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not node.module or node.module == package:
                continue
            if any((alias.asname or alias.name) == name for alias in node.names):
                return _definition(node.module, name)
    return package


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("give one file: make test-of FILE=rubricworks/rewards/weighted.py")
    print(*tests_of(sys.argv[1]))
