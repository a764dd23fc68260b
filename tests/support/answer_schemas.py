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
        names = {name for call in ast.walk(ast.parse(path.read_text())) for name in _response_of(call)}
        if not names:
            continue
        module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        for name in names:
            value = getattr(module, name, None)
            if isinstance(value, type) and issubclass(value, BaseModel):
                models[value.__qualname__] = value
    return [models[name] for name in sorted(models)]


def _response_of(node: ast.AST) -> list[str]:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "chat"):
        return []
    given = [*node.args[1:2], *(word.value for word in node.keywords if word.arg == "response")]
    return [one.id for one in given if isinstance(one, ast.Name)]
