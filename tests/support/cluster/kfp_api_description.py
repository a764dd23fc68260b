"""Description of Kubeflow Pipelines' REST API (Swagger 2.0), from the client that its own project generates from it.

`kfp_server_api` comes with kfp. Its methods hold the paths, parameters and types of the API's description, and its
models the fields. A field that a model does not have is refused (`additionalProperties: false`), and so is a word that
an enumeration does not have.
"""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import kfp_server_api

Schema = dict[str, Any]
_PRIMITIVES: dict[str, Schema] = {
    "str": {"type": "string"},
    "bool": {"type": "boolean"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "object": {},
    "datetime": {"type": "string", "format": "date-time"},
    "file": {"type": "file"},
}
_OF_64_BITS = {
    "max_concurrency", "interval_second", "long_value", "execution_id", "pipeline_context_id",
    "pipeline_run_context_id",
}  # fmt: skip
"""Fields that protocol buffers write into JSON as strings and read as numbers too."""


def describe_api() -> Schema:
    """The description, with a definition for each model that a method or another model names."""
    definitions: dict[str, Schema] = {}
    paths: dict[str, Schema] = {}
    for method in _methods():
        path, verb, operation = _operation(method, definitions)
        paths.setdefault(path, {})[verb] = operation
    return {
        "swagger": "2.0",
        "info": {"title": "Kubeflow Pipelines API", "version": kfp_server_api.__version__},
        "consumes": ["application/json"],
        "produces": ["application/json"],
        "securityDefinitions": {"Bearer": {"type": "apiKey", "name": "authorization", "in": "header"}},
        "security": [{"Bearer": []}],
        "paths": paths,
        "definitions": definitions,
    }


def _methods() -> Iterator[Any]:
    for module in pkgutil.iter_modules(importlib.import_module("kfp_server_api.api").__path__, "kfp_server_api.api."):
        for _, service in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if service.__module__ == module.name:
                for name, method in inspect.getmembers(service, inspect.isfunction):
                    if name.endswith("_with_http_info"):
                        yield method


def _operation(method: Any, definitions: dict[str, Schema]) -> tuple[str, str, Schema]:
    """Path, verb and operation of a method."""
    source, types = inspect.getsource(method), dict(re.findall(r":type (\w+): ([\w.()\[\], ]+)", method.__doc__))
    call = re.search(r"call_api\(\s*'([^']+)', '([A-Z]+)'", source)
    response = re.search(r"response_type=(?:'([^']+)'|None)", source)
    assert call
    assert response
    required = set(re.findall(r"Missing the required parameter `(\w+)`", source))
    places = {
        "path": re.findall(r"path_params\['([^']+)'\] = local_var_params\['(\w+)'\]", source),
        "query": re.findall(r"query_params\.append\(\('([^']+)', local_var_params\['(\w+)'\]\)\)", source),
        "formData": re.findall(r"local_var_files\['([^']+)'\] = local_var_params\['(\w+)'\]", source),
    }
    parameters: list[Schema] = [
        {
            "name": name,
            "in": place,
            "required": variable in required,
            **_schema(types[variable].removesuffix(", optional"), definitions, strings=place != "formData"),
        }
        for place, names in places.items()
        for name, variable in names
    ]
    if body := re.search(r"body_params = local_var_params\['(\w+)'\]", source):
        schema = _schema(types[body[1]], definitions)
        parameters.append({"name": "body", "in": "body", "required": body[1] in required, "schema": schema})
    operation: Schema = {
        "operationId": method.__name__.removesuffix("_with_http_info"),
        "parameters": parameters,
        "responses": {
            "200": {"description": "", "schema": _schema(response[1] or "object", definitions)},
            "default": {"description": "", "schema": _schema("GoogleRpcStatus", definitions)},
        },
    }
    if places["formData"]:
        operation["consumes"] = ["multipart/form-data"]
    return call[1], call[2].lower(), operation


def _schema(kind: str, definitions: dict[str, Schema], *, strings: bool = False) -> Schema:
    """Schema of a type as the client names it.

    Args:
        strings: of a parameter in a path or query, whose enumerations are words.
    """
    if kind in _PRIMITIVES:
        return _PRIMITIVES[kind]
    if inner := re.fullmatch(r"list\[(.+)\]", kind):
        return {"type": "array", "items": _schema(inner[1], definitions)}
    if inner := re.fullmatch(r"dict\(str, (.+)\)", kind):
        return {"type": "object", "additionalProperties": _schema(inner[1], definitions)}
    if kind not in definitions:
        _define(kind, definitions)
    return definitions[kind] if strings else {"$ref": f"#/definitions/{kind}"}


def _define(kind: str, definitions: dict[str, Schema]) -> None:
    model = getattr(kfp_server_api, kind)
    words = [value for name, value in vars(model).items() if name.isupper() and isinstance(value, str)]
    if not model.openapi_types and words:
        definitions[kind] = {"type": "string", "enum": words}
        return
    definitions[kind] = {}  # a model may hold itself
    fields = {model.attribute_map[name]: _schema(of, definitions) for name, of in model.openapi_types.items()}
    definitions[kind] |= {
        "type": "object",
        "properties": fields | {name: {"type": ["string", "integer"]} for name in _OF_64_BITS & fields.keys()},
        # Errors are Google's type, to which the gateway adds fields.
        "additionalProperties": not kind.startswith("V2beta1"),
    }
