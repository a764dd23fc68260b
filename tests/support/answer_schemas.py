"""Every pydantic model that the library asks a chat endpoint to answer with, found in its source."""

import ast
import importlib
from pathlib import Path

from pydantic import BaseModel

ROOT = Path(__file__).parents[2]


def answer_models() -> list[type[BaseModel]]:
    """Models that some call of `chat` names as its response, in the order of their names."""
    models: dict[str, type[BaseModel]] = {}
    for path in sorted((ROOT / "rubricworks").rglob("*.py")):
        source = path.read_text()
        if ".chat(" not in source:  # most files, which take a second to parse
            continue
        tree = ast.parse(source)
        names = {name for call in ast.walk(tree) for name in _response_of(call)}
        if not names:
            continue
        module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        for name in names | _assigned_to(tree, names):
            value = getattr(module, name, None)
            for model in value.values() if isinstance(value, dict) else [value]:
                if isinstance(model, type) and issubclass(model, BaseModel):
                    models[model.__qualname__] = model
    return [models[name] for name in sorted(models)]


def _assigned_to(tree: ast.AST, names: set[str]) -> set[str]:
    """Names in what is assigned to one of the names, such as `answer = Judgment if … else ANSWERS[…]`."""
    values = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id in names for target in node.targets)
    ]
    return {node.id for value in values for node in ast.walk(value) if isinstance(node, ast.Name)}


def _response_of(node: ast.AST) -> list[str]:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "chat"):
        return []
    given = [*node.args[1:2], *(word.value for word in node.keywords if word.arg == "response")]
    return [argument.id for argument in given if isinstance(argument, ast.Name)]
