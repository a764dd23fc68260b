"""Schemas of all tables. A change that breaks existing files increments SCHEMA_VERSION."""

import pyarrow as pa

SCHEMA_VERSION = 3


def _required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


def _schema(*fields: pa.Field) -> pa.Schema:
    return pa.schema(list(fields))


_TEXT, _WHOLE, _NUMBER = pa.string(), pa.int64(), pa.float64()
_SAMPLE_ID = _required("sample_id", _TEXT)
_STEP = _required("step", _WHOLE)
_RESPONSE_TYPE = pa.field("response_type", _TEXT)
"""Media type of a response that is an image, whose digest is then in `response`; null for a text."""
_CALL = (_required("prompt_tokens", _WHOLE), _required("completion_tokens", _WHOLE), _required("cost", _NUMBER))
"""Usage of the row's model call; the cost in dollars is that of the original call, also for a cached answer."""
_MODEL = (
    _required("model", _TEXT),
    _required("revision", _TEXT),
    pa.field("step", _WHOLE),
    _required("decoding", _TEXT),
)
"""Model that responded; `step` is None unless it is a milestone of a training."""

_ABNORMAL = (
    _SAMPLE_ID,
    _required("mode", _TEXT),
    pa.field("attack", _TEXT),
    pa.field("pattern", _TEXT),
    _required("question", _TEXT),
    _required("response", _TEXT),
    _required("rubric", _TEXT),
    _required("annotations", _TEXT),
)
"""Abnormal response of an audit, with the failure mode that it was written for."""

SCHEMAS: dict[str, pa.Schema] = {
    "samples": _schema(
        _SAMPLE_ID,
        _required("split", _TEXT),
        pa.field("image", pa.binary()),
        pa.field("image_digest", _TEXT),
        _required("prompt", _TEXT),
        _required("references", pa.list_(_TEXT)),
        _required("source", _TEXT),
        pa.field("question", _TEXT),
        pa.field("answer", _TEXT),
        pa.field("task", _TEXT),
        pa.field("options", pa.list_(_TEXT)),
    ),
    "instructions": _schema(
        _SAMPLE_ID,
        _required("images", pa.list_(pa.binary())),
        _required("messages", _TEXT),
        _required("source", _TEXT),
    ),
    "captions": _schema(
        _SAMPLE_ID,
        _required("captioner", _TEXT),
        _required("model", _TEXT),
        _required("revision", _TEXT),
        _required("prompt_version", _TEXT),
        _required("endpoint", _TEXT),
        _required("seed", _WHOLE),
        _required("caption", _TEXT),
        *_CALL,
    ),
    "rubrics": _schema(
        _SAMPLE_ID,
        _required("rubric", _TEXT),
        _required("writer", _TEXT),
        _required("prompt_version", _TEXT),
        _required("coverage", _TEXT),
        _required("candidates", _WHOLE),
        *_CALL,
    ),
    "rollouts": _schema(
        _STEP,
        _SAMPLE_ID,
        _required("response", _TEXT),
        _RESPONSE_TYPE,
        _required("tokens", _WHOLE),
        pa.field("reward", _NUMBER),
        pa.field("advantage", _NUMBER),
    ),
    "scorecards": _schema(
        _STEP,
        _SAMPLE_ID,
        _required("response", _TEXT),
        _RESPONSE_TYPE,
        _required("judge", _TEXT),
        _required("scorecard", _TEXT),
        pa.field("reward", _NUMBER),
    ),
    "caption_grades": _schema(
        _STEP,
        _SAMPLE_ID,
        _required("response", _TEXT),
        _required("judge", _TEXT),
        _required("graded", _TEXT),
        *(pa.field(name, _NUMBER) for name in ("precision", "recall", "linguistic")),
        _required("gated", pa.bool_()),
        _required("tokens", _WHOLE),
        _required("reference_tokens", _WHOLE),
        pa.field("advantage", _NUMBER),
    ),
    "evaluations": _schema(
        _SAMPLE_ID,
        _required("model", _TEXT),
        _required("decoding", _TEXT),
        _required("caption", _TEXT),
        _required("tokens", _WHOLE),
        pa.field("rubric_reward", _NUMBER),
        pa.field("scorecard", _TEXT),
        pa.field("oracle_precision", _NUMBER),
        pa.field("oracle_recall", _NUMBER),
        pa.field("oracle_f1", _NUMBER),
        pa.field("win", _NUMBER),
        pa.field("judgment", _TEXT),
    ),
    "exams": _schema(
        _SAMPLE_ID,
        _required("questions", _TEXT),
        _required("writer", _TEXT),
        _required("prompt_version", _TEXT),
        *_CALL,
    ),
    "caption_scores": _schema(
        _SAMPLE_ID,
        _required("model", _TEXT),
        _required("caption", _TEXT),
        _required("tokens", _WHOLE),
        *(
            pa.field(name, _NUMBER)
            for name in (
                *("precision", "recall", "linguistic", "b_capscore"),
                *("dc_precision", "dc_recall", "dc_f1", "dc_score", "caption_qa"),
                *("oracle_precision", "oracle_recall", "oracle_f1", "win", "answered"),
            )
        ),
        *(pa.field(name, _TEXT) for name in ("graded", "facts", "answers", "judgment")),
    ),
    "answers": _schema(
        _SAMPLE_ID,
        _required("arm", _TEXT),
        _STEP,
        _required("task", _TEXT),
        _required("response", _TEXT),
        _required("tokens", _WHOLE),
        pa.field("right", pa.bool_()),
    ),
    "responses": _schema(
        _SAMPLE_ID,
        *_MODEL,
        _required("response", _TEXT),
        _RESPONSE_TYPE,
        pa.field("tokens", _WHOLE),
    ),
    "scores": _schema(
        pa.field("sample_id", _TEXT),
        *_MODEL,
        pa.field("against", _TEXT),
        _required("scorer", _TEXT),
        _required("version", _TEXT),
        _required("judge", _TEXT),
        _required("part", _TEXT),
        pa.field("value", _NUMBER),
        pa.field("reason", _TEXT),
        pa.field("evidence", _TEXT),
    ),
    "dead_letters": _schema(
        _SAMPLE_ID,
        _required("stage", _TEXT),
        _required("purpose", _TEXT),
        pa.field("criterion", _TEXT),
        pa.field("response", _TEXT),
        _RESPONSE_TYPE,
        _required("reason", _TEXT),
        _required("message", _TEXT),
        _required("raw", _TEXT),
        _required("request", _TEXT),
        _required("attempts", _WHOLE),
    ),
    "genrm_data": _schema(
        _SAMPLE_ID,
        _required("split", _TEXT),
        _required("question", _TEXT),
        _required("response", _TEXT),
        _required("rubric", _TEXT),
        _required("label", _TEXT),
        pa.field("task", _TEXT),
        _required("loses_credit", pa.bool_()),
    ),
    "genrm_outputs": _schema(
        _SAMPLE_ID,
        _required("model", _TEXT),
        _required("response", _TEXT),
        _required("output", _TEXT),
        _required("tokens", _WHOLE),
        _required("label", _TEXT),
    ),
    "audit_candidates": _schema(*_ABNORMAL, pa.field("rejected", _TEXT), pa.field("details", _TEXT)),
    "audit": _schema(*_ABNORMAL, _required("setting", _TEXT), _required("judge", _TEXT), _required("scorecard", _TEXT)),
    "filtered": _schema(
        _SAMPLE_ID,
        _required("any", pa.bool_()),
        _required("essential", pa.bool_()),
        _required("kept", pa.bool_()),
        _required("multiple_choice", pa.bool_()),
        _required("rewards", _TEXT),
        pa.field("initial_reward", _NUMBER),
    ),
    "rejected": _schema(_required("source", _TEXT), _required("reason", _TEXT)),
    "overlong": _schema(_SAMPLE_ID, _required("reason", _TEXT)),
    "audited_responses": _schema(_SAMPLE_ID, _required("response", _TEXT)),
    "without_rubric": _schema(_SAMPLE_ID, _required("reason", _TEXT)),
}
"""Arrow schema of each table by name.

JSON values (rubric, scorecard) are strings, because Arrow structs would unify their fields over the rows.
A dead letter of grading has the response and the criterion that was not judged; `request` is the request's digest.
In `caption_grades`, `linguistic` is the judge's rating; where `gated`, the policy's reward was 0 instead. Its `tokens`
exclude end-of-response tokens, unlike those of `rollouts`; `graded` is a `GradedCaption`.
A row of `scores` has no `sample_id` if it scores a corpus, and `against` is the opponent's model. Its value is None if
the response could not be judged, with the reason; the evidence is JSON, in the row of a scorer's first part.
A nullable column is None where the judge, the oracle or the comparison gave no value for the row. A sample without an
image has neither `image` nor `image_digest`. Images of responses lie beside the table, see `response_images`.
"""


def table_from_rows(table: str, rows: list[dict[str, object]]) -> pa.Table:
    """Convert rows to an Arrow table with the named schema.

    Raises:
        ValueError: a row has an unknown column, lacks a required one, or has a value of another type.
    """
    schema = SCHEMAS[table]
    columns = set(schema.names)
    required = {field.name for field in schema if not field.nullable}
    for number, row in enumerate(rows):
        unknown = sorted(row.keys() - columns)
        missing = sorted(name for name in required if row.get(name) is None)
        if unknown:
            raise ValueError(
                f"{table} row {number}: no column {unknown[0]!r}; the columns are {', '.join(schema.names)}"
            )
        if missing:
            raise ValueError(f"{table} row {number}: column {missing[0]!r} has no value")
    try:
        return pa.Table.from_pylist(rows, schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(f"{table}: {error}") from error
