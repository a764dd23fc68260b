"""The house of the design: imports point down only, and nothing heavy loads before it is needed."""

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

STOREYS = [
    {"cli", "platform_api", "rehearsal"},
    {"pipelines", "runs", "kubeflow"},
    {"components"},
    {"methods"},
    {"claims", "recipe"},
    {"stages", "policy"},
    {"runtime"},
    {"training", "evaluation", "tracking", "reports"},
    {"adapters"},
    {"synthesis", "grading"},
    {"rewards", "metrics", "rl"},
    {"llm", "data", "kubernetes"},
    {"rubrics", "verifiers", "storage"},
    {"errors", "environment", "listening", "proxies", "redaction", "strict_yaml", "terminal", "recipes", "__init__"},
]
FLOOR = {room: len(STOREYS) - number for number, storey in enumerate(STOREYS) for room in storey}
PURE = {"rewards", "metrics", "rl"}
MAY_KNOW_THE_WORLD = {"world", "cli", "claims", "recipes", "rehearsal"}
WORLD_MAY_KNOW = {"world", "errors", *(room for room, floor in FLOOR.items() if floor <= FLOOR["metrics"])}

HEAVY = {"torch", "transformers", "trl", "mlflow", "kfp", "datasets", "matplotlib", "accelerate", "peft", "pandas"} | {
    "kubernetes",
    "kubeflow_trainer_api",
}
HEAVY |= {"fastapi", "sqlalchemy", "uvicorn"}
LIGHT = {
    "cli",
    "recipe",
    "rubrics",
    "llm",
    "data",
    "storage",
    "grading",
    "synthesis",
    "rewards",
    "metrics",
} | {
    "errors",
    "environment",
    "listening",
    "proxies",
    "redaction",
    "strict_yaml",
    "tracking",
    "kubernetes",
    "__init__",
}


def modules() -> Iterator[tuple[str, Path]]:
    """Room of the house → file; what sits at the top for people is part of the package."""
    for folder in (
        ROOT / "rubricworks",
        *(ROOT / name for name in ("components", "pipelines", "recipes", "platform_api")),
    ):
        for path in sorted(folder.rglob("*.py")):
            inside = path.relative_to(folder if folder.name == "rubricworks" else ROOT)
            yield inside.parts[0].removesuffix(".py"), path


def imports(path: Path, *, run_on_import: bool = False) -> Iterator[tuple[str, int]]:
    """Full names that a file imports and their lines; with `run_on_import` only those outside functions."""
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from ((name.name, node.lineno) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: write the full name"
            yield from ((f"{node.module}.{name.name}", node.lineno) for name in node.names)
        if run_on_import and (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or _for_types(node)
        ):
            continue
        waiting += ast.iter_child_nodes(node)


def _for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def room_of(name: str) -> str | None:
    """Package of an imported name of the project; a name of the package's own `__init__` counts as that."""
    package, *rest = name.split(".")
    if package != "rubricworks":
        return None
    return rest[0] if rest and (rest[0] in FLOOR or rest[0] == "world") else "__init__"


def broken_rules(room: str, imported: str) -> str | None:
    if room == "world":
        return None if imported in WORLD_MAY_KNOW | {"__init__"} else "the world knows only the lower storeys"
    if imported == "world":
        return None if room in MAY_KNOW_THE_WORLD else "only cli, claims and recipes know the world"
    if FLOOR[imported] > FLOOR[room]:
        return "imports point down only"
    if room in PURE and FLOOR[imported] > FLOOR["errors"] and imported not in PURE | {"rubrics"}:
        return "pure storeys import only rubrics"
    return None


def test_every_room_has_its_storey():
    assert {room for room, _ in modules()} - {"world"} <= FLOOR.keys()


@pytest.mark.slow
def test_imports_point_down():
    broken = [
        f"{path.relative_to(ROOT)}:{line}: {name}: {rule}"
        for room, path in modules()
        for name, line in imports(path)
        if (imported := room_of(name)) and (rule := broken_rules(room, imported))
    ]
    assert broken == []


def module_of(path: Path) -> str:
    """Full name by which a file is imported."""
    inside = path.relative_to(ROOT).with_suffix("")
    parts = [part for part in inside.parts if part != "__init__"]
    return ".".join(parts if parts[0] == "rubricworks" else ["rubricworks", *parts])


def test_no_method_imports_another():
    broken = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for room, path in modules()
        if room == "methods" and len(path.relative_to(ROOT).parts) > 3
        for name, line in imports(path)
        if name.startswith("rubricworks.methods.") and name.split(".")[2] != path.relative_to(ROOT).parts[2]
    ]
    assert broken == []


@pytest.mark.slow
def test_no_files_import_each_other_in_a_circle():
    files = {module_of(path): path for _, path in modules()}
    arrows: dict[str, set[str]] = {}
    for module, path in files.items():
        arrows[module] = set()
        for name, _ in imports(path):
            while name and name not in files:
                name = name.rpartition(".")[0]
            # A package's own face only hands names on.
            if name and name != module and files[name].name != "__init__.py":
                arrows[module].add(name)
    assert list(graphlib.TopologicalSorter(arrows).static_order())  # raises CycleError, which names the files


def test_heavy_packages_are_imported_where_they_are_used():
    broken = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for room, path in modules()
        if room in LIGHT
        for name, line in imports(path, run_on_import=True)
        if name.split(".")[0] in HEAVY
    ]
    assert broken == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    [
        "rubricworks",
        "rubricworks.cli",
        "rubricworks.data",
        "rubricworks.grading",
        "rubricworks.tracking",
        "rubricworks.recipe",
    ],
)
def test_importing_loads_nothing_heavy(module):
    program = f"import sys, {module}; print(*sorted({HEAVY} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


@pytest.mark.parametrize(
    ("room", "imported", "allowed"),
    [
        ("methods", "stages", True),
        ("stages", "methods", False),
        ("runtime", "reports", True),
        ("reports", "runtime", False),
        ("stages", "data", True),
        ("data", "stages", False),
        ("llm", "data", True),
        ("rewards", "llm", False),
        ("rewards", "rubrics", True),
        ("stages", "world", False),
        ("cli", "world", True),
        ("world", "grading", False),
        ("world", "rubrics", True),
        ("rubrics", "errors", True),
    ],
)
def test_rule_itself_tells_good_from_bad(room, imported, allowed):
    assert (broken_rules(room, imported) is None) == allowed
