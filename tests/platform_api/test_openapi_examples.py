"""Every body that /openapi.json describes has an example, which is valid by its own schema."""

import pytest
from jsonschema import Draft202012Validator

from rubricworks.platform_api.app import create_app
from rubricworks.platform_api.openapi import NoExample, example_of


def bodies(description):
    """Place and schema of each body of a request or an answer, and of each schema that they name."""
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            requests = {"request": operation["requestBody"]} if "requestBody" in operation else {}
            for status, body in (requests | operation["responses"]).items():
                for media_type, media in body.get("content", {}).items():
                    if "schema" in media or media_type.endswith("json"):
                        yield f"{method} {path} {status} {media_type}", media.get("schema", {})
    yield from description["components"]["schemas"].items()


def problems(schema, schemas):
    """What is wrong with the examples of a schema, by that schema and those that it names."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    if not schema.get("examples"):
        try:
            example_of(schema, schemas)
        except NoExample as error:
            return [str(error)]
    check = Draft202012Validator({**schema, "components": {"schemas": schemas}})
    return [error.message for example in schema["examples"] for error in check.iter_errors(example)]


@pytest.mark.slow
def test_each_body_has_an_example_that_is_valid_by_its_schema():
    description = create_app().openapi()
    schemas = description["components"]["schemas"]
    result = {place: problems(schema, schemas) for place, schema in bodies(description)}
    assert len(result) > 500
    assert {place: problem for place, problem in result.items() if problem} == {}


def test_an_example_is_put_together_from_those_of_the_fields():
    components = {"Step": {"type": "object", "properties": {"step": {"type": "integer", "examples": [40]}}}}
    schema = {
        "type": "object",
        "properties": {
            "steps": {"type": "array", "items": {"$ref": "#/components/schemas/Step"}},
            "state": {"type": "string", "enum": ["going", "done"]},
            "next_cursor": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
    }
    assert example_of(schema, components) == {"steps": [{"step": 40}], "state": "going", "next_cursor": None}
    schema["properties"]["name"] = {"type": "string"}
    with pytest.raises(NoExample, match="name: "):
        example_of(schema, components)
