"""Reference page of the platform API: routes with their rights and parameters, and the fields of bodies."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from schema_tables import Schema, cell, field_table, kind, slug, summary

from rubricworks.platform_api.app import create_app, guarded_routes
from rubricworks.platform_api.settings import ApiSettings

_INTRO = """# Platform API

Routes of the server, by subject. `/openapi.json` of a server describes the same, with an example of each body.

- Send `Authorization: Bearer TOKEN`. A route lists the right that the token needs ([accounts](../platform.md)).
- Send `Idempotency-Key` with a POST to repeat it safely.
- Lists return `next_cursor`; send it as `cursor` for the next page.
- Send the `ETag` of a response as `If-None-Match`: 304 means that nothing changed.
- Errors are `application/problem+json` (RFC 9457) with a `detail` that says what to do.
"""
_HEADERS = {"If-None-Match", "Idempotency-Key", "Last-Event-ID"}


def api_page() -> str:
    """The page as Markdown."""
    description = create_app(ApiSettings()).openapi()
    schemas = description["components"]["schemas"]
    shown = {name: f"`{name}`" for name, schema in schemas.items() if schema.get("properties")}
    rights = {
        (route.path, method.lower()): check.call.right.value
        for route in guarded_routes()
        for check in route.dependant.dependencies
        if hasattr(check.call, "right")
        for method in route.methods
    }
    by_subject = defaultdict(list)
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            subject = (operation.get("tags") or ["service"])[0]
            by_subject[subject].append(_operation(path, method, operation, rights, shown))
    parts = [_INTRO]
    for subject in sorted(by_subject):
        parts += [f"## {subject.capitalize()}", "", *(line for lines in by_subject[subject] for line in lines)]
    parts += ["## Bodies", ""]
    for name in sorted(shown):
        parts += [f"### {shown[name]} {{ #{slug(name)} }}", "", summary(schemas[name]), ""]
        parts += [*field_table(schemas[name], schemas[name]["properties"], schemas, shown), ""]
    return "\n".join(parts).rstrip() + "\n"


def _operation(
    path: str,
    method: str,
    operation: Schema,
    rights: Mapping[tuple[str, str], str],
    shown: Mapping[str, str],
) -> Iterable[str]:
    yield f"### `{method.upper()} {path}`"
    yield ""
    right = rights.get((path, method))
    yield f"{operation.get('summary', '').rstrip('.')}." + (f" Needs the right to {right}." if right else "")
    yield ""
    if sent := _content(operation.get("requestBody", {}), shown):
        yield f"- Request: {sent}"
    for status, response in operation.get("responses", {}).items():
        if status.startswith("2"):
            yield f"- Response {status}: {_content(response, shown) or 'no body'}"
    yield ""
    parameters = [field for field in operation.get("parameters", ()) if field["name"] not in _HEADERS]
    if parameters:
        yield "| parameter | in | type | meaning |"
        yield "|---|---|---|---|"
    for field in parameters:
        name = f"`{field['name']}`" + (", required" if field.get("required") else "")
        yield f"| {name} | {field['in']} | {kind(field['schema'], shown)} | {cell(field.get('description', ''))} |"
    yield ""


def _content(message: Schema, shown: Mapping[str, str]) -> str:
    """Types of the bodies of a request or a response."""
    bodies = message.get("content", {}).items()
    return ", ".join(
        kind(body.get("schema", {}), shown) if media == "application/json" else f"`{media}`" for media, body in bodies
    )
