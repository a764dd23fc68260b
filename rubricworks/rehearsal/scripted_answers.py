"""Valid answers to every question that the stages ask a model, for the rehearsal's own server.

An answer has the form that the request's schema asks for, and goes with what the request lists: as many verdicts as
criteria, as many facts as statements. What it says is drawn from the request's digest. A schema without an entry here
is filled by its types.
"""

import html
import json
import random
import re
from collections.abc import Callable
from typing import Any

from rubricworks.world.chat import ChatRequest, section

_WORDS = (
    *(
        "a",
        "the",
        "small",
        "large",
        "red",
        "blue",
        "wooden",
        "bright",
        "old",
        "dog",
        "table",
        "window",
        "street",
        "tree",
    ),
    *("child", "stands", "lies", "beside", "behind", "near", "under", "with", "two", "three", "green", "grass", "sky"),
)
_CREDIBLE = 0.6
"""Share of verdicts that pass."""
_AGREEING = 0.9
"""Share of credits that are the same whichever model is asked."""
_BY_RULE = 0.3
"""Share of answers that a verifier checks."""
_CALL = re.compile(r"(\w+_verify)(?:\((.*)\))?", re.DOTALL)
_TARGET = re.compile(r"target=('[^']*'|\"[^\"]*\"|\[.*\])", re.DOTALL)
_BOXED = re.compile(r"\\boxed\{([^{}]*)\}")
_KEY = re.compile(r"^- (\w+):", re.MULTILINE)
_LINE = re.compile(r"^(\d+)\. (.*)$", re.MULTILINE)

Answer = Callable[[ChatRequest, random.Random], Any]


def scripted_answer(request: ChatRequest, name: str, schema: dict[str, Any] | None, draw: random.Random) -> str:
    """Text of an answer.

    Args:
        name: of the request's schema; empty without one.
        schema: JSON schema of the answer; None asks for text.
    """
    if schema is None:
        return _text(request, draw)
    if build := _BY_SCHEMA.get(name):
        return json.dumps(build(request, draw))
    return json.dumps(fill_schema(schema, draw))


def fill_schema(schema: dict[str, Any], draw: random.Random, definitions: dict[str, Any] | None = None) -> Any:
    """Draw a value that a JSON schema allows."""
    definitions = schema.get("$defs", {}) if definitions is None else definitions
    if reference := schema.get("$ref"):
        return fill_schema(definitions[reference.rpartition("/")[2]], draw, definitions)
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return fill_schema(draw.choice(options), draw, definitions)
    if "enum" in schema:
        return draw.choice(schema["enum"])
    if "const" in schema:
        return schema["const"]
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            return {key: fill_schema(value, draw, definitions) for key, value in properties.items()}
        case "array":
            least = schema.get("minItems", 0)
            count = min(max(2, least), schema.get("maxItems", 2) or 0)
            places = schema.get("prefixItems")
            return [
                fill_schema(places[at] if places and at < len(places) else schema.get("items", {}), draw, definitions)
                for at in range(len(places) if places else count)
            ]
        case "integer":
            return draw.randint(schema.get("minimum", 0), min(schema.get("maximum", 3), schema.get("minimum", 0) + 3))
        case "number":
            low, high = schema.get("minimum", 0), schema.get("maximum", 1)
            return round(max(low, 0) + draw.random() * (min(high, 1) - max(low, 0)), 3)
        case "boolean":
            return draw.random() < _CREDIBLE
        case "null":
            return None
        case _:
            return sentence(draw)


def sentence(draw: random.Random) -> str:
    """A short sentence about something that can be seen."""
    return " ".join(draw.choices(_WORDS, k=draw.randint(4, 9))).capitalize() + "."


def _text(request: ChatRequest, draw: random.Random) -> str:
    """Answer in words: a letter, a number, an abnormal response with its extractions, or a few sentences."""
    instructions = f"{request.system}\n{request.prompt}"
    if "<extractions>" in instructions:
        return _abnormal_response(request, draw)
    if "single letter" in instructions:
        return "A"
    if "one whole number from 0 to 10" in instructions:
        return str(draw.randint(2, 9))
    return " ".join(sentence(draw) for _ in range(4))


def _given(request: ChatRequest, tag: str) -> str:
    return html.unescape(section(request.prompt, tag) or "")


def _verdicts(request: ChatRequest, draw: random.Random, *, continuous: bool = False) -> Any:
    criteria = json.loads(section(request.prompt, "criteria") or "[]")
    return {
        "verdicts": [
            {
                "id": criterion["id"],
                "reasoning": sentence(draw),
                "score": round(draw.random(), 2) if continuous else int(draw.random() < _CREDIBLE),
            }
            for criterion in criteria
        ]
    }


def _scoring(request: ChatRequest, draw: random.Random) -> Any:
    checklist = json.loads(section(request.prompt, "checklist") or "{}")
    response = _given(request, "response")
    return {"thought": sentence(draw)} | {
        part: [
            {
                "criterion": item["criterion"],
                "rationale": sentence(draw),
                "credit": _credit(item["reference"], response, draw),
            }
            for item in checklist.get(part, [])
        ]
        for part in ("essential", "additional")
    }


def _credit(reference: str, response: str, draw: random.Random) -> float | str:
    """A verifier's call with what a response says; where the model judges, a credit that most models agree on."""
    if match := _CALL.fullmatch(reference.strip()):
        name = match[1]
        if name in ("list_verify", "bbox_verify", "point_verify"):
            return f"{name}(predict=[])"
        boxed = _BOXED.findall(response)
        said = boxed[-1] if boxed else response.strip().rpartition("\n")[2][:60]
        return f"{name}(predict={said!r})"
    if reference.casefold().strip(" .") in response.casefold():
        return 1
    if draw.random() < _AGREEING:
        draw = random.Random(f"{reference}\n{response}")
    return draw.choice((0, 0.5, 1, 1))


def _checklist(request: ChatRequest, draw: random.Random) -> Any:
    truth = _given(request, "reference_answer") or sentence(draw)
    verifiers = section(request.prompt, "verifiers") or ""
    reference = f"text_verify(target={truth!r})" if "text_verify" in verifiers and draw.random() < _BY_RULE else truth
    return {
        "essential": [
            {"criterion": "The final answer gives what the question asks for.", "reference": reference, "weight": 3}
        ],
        "additional": [
            {
                "criterion": "The response names what the image shows that decides the answer.",
                "reference": sentence(draw),
                "weight": draw.choice((1, 2)),
            }
        ],
    }


def _rubric(request: ChatRequest, draw: random.Random) -> Any:
    """Criteria from captions, each supported by all candidates; or from a prompt, each resting on its words."""
    candidates = request.prompt.count("<candidate ")
    if not candidates:
        keys = _KEY.findall(request.prompt) or ["object_count"]
        words = _given(request, "prompt").split() or ["image"]
        return {
            "rubrics": [
                {"criterion": sentence(draw), "eval_key": draw.choice(keys), "evidence": draw.choice(words)}
                for _ in range(6)
            ]
        }
    return {
        "rubrics": [
            {
                "criterion": f"Detail {number}: {sentence(draw)}",
                "description": sentence(draw),
                "evaluation_rule": f"Passes if the caption says: {sentence(draw)} Fails if it does not.",
                "weight": draw.choice((1, 2, 3)),
                "justification": sentence(draw),
                "student_already_met": False,
                "reference_teachers": [f"Model {at}" for at in range(1, candidates + 1)],
                "teacher_consensus": sentence(draw),
            }
            for number in range(1, 4)
        ]
    }


def _assertions(request: ChatRequest, draw: random.Random, *, verified: bool = True) -> Any:
    def listed(tag: str) -> list[str]:
        parts = [part.strip() for part in re.split(r"(?<=[.!?])\s+|\n", _given(request, tag)) if part.strip()]
        return list(dict.fromkeys(part[:500] for part in parts))[:20] or ["It shows something."]

    caption: list[dict[str, Any]] = [{"text": text} for text in listed("caption")]
    if verified:
        caption = [assertion | {"is_verified": draw.random() < _CREDIBLE} for assertion in caption]
    scores = {f"{name}_score": draw.randint(3, 10) for name in ("clarity", "fluency", "coherency")}
    return {
        "synthetic_features": {
            "atomic_assertions": caption, **scores, "linguistic_scores_explanation": sentence(draw),
        },
        "gt_features": {
            "atomic_assertions": [
                {"text": text, "is_covered": draw.random() < _CREDIBLE} for text in listed("reference")
            ]
        },
    }  # fmt: skip


def _verification(request: ChatRequest, draw: random.Random) -> Any:
    entries = json.loads(section(request.prompt, "assertions") or "[]")
    return {"assertions": [{**entry, "is_verified": draw.random() < _CREDIBLE} for entry in entries]}


def _exam(request: ChatRequest, draw: random.Random) -> Any:
    return {
        "questions": [
            {"question": f"{number}. What is near the tree?", "options": ["a dog", "a child", "a table"], "answer": "B"}
            for number in range(1, 6)
        ]
    }


def _numbered(request: ChatRequest, tag: str) -> list[int]:
    return [int(number) for number, _ in _LINE.findall(_given(request, tag))]


def _matches(request: ChatRequest, draw: random.Random) -> Any:
    references = _numbered(request, "reference_facts")
    return {
        "matches": [
            {"fact": number, "reference": draw.choice([*references, None])} for number in _numbered(request, "facts")
        ]
    }


def _checks(request: ChatRequest, draw: random.Random) -> Any:
    return {
        "checks": [{"fact": number, "is_true": draw.random() < _CREDIBLE} for number in _numbered(request, "facts")]
    }


def _facts(request: ChatRequest, draw: random.Random) -> Any:
    return {"facts": [{"fact": f"{number}: {sentence(draw)}", "relevant": True} for number in range(1, 5)]}


def _opening(request: ChatRequest, draw: random.Random) -> Any:
    question = _given(request, "question").strip()
    return {
        "reason": sentence(draw), "well_posed": True, "unique_answer": draw.random() < _CREDIBLE,
        "question": question, "answer": _given(request, "right_option").strip(),
    }  # fmt: skip


def _assessments(request: ChatRequest, draw: random.Random) -> Any:
    letters = re.findall(r"<caption_([a-z])>", request.prompt)
    scores = ("accuracy", "completeness", "clarity", "hallucination_penalty")
    return {
        "assessments": [
            {
                "caption": letter.upper(),
                "justification": sentence(draw),
                **{name: draw.randint(0, 10) for name in scores},
            }
            for letter in letters
        ]
    }


def _selection(request: ChatRequest, draw: random.Random) -> Any:
    rows = json.loads(section(request.prompt, "candidates") or "[]")
    return {"selected": list(range(1, min(len(rows), 10) + 1)) or [1]}


def _abnormal_response(request: ChatRequest, draw: random.Random) -> str:
    checklist = section(request.prompt, "checklist") or ""
    numbers = re.findall(r'"(?:id|number)": ?"?(\d+)', checklist) or re.findall(r"^(\d+)[.:]", checklist, re.MULTILINE)
    entries = {
        number: {"extracted_value": "", "credit": 0, "rationale": sentence(draw)} for number in dict.fromkeys(numbers)
    }
    return f"<response>{sentence(draw)} {sentence(draw)}</response>\n<extractions>{json.dumps(entries)}</extractions>"


_BY_SCHEMA: dict[str, Answer] = {
    "Judgment": _verdicts,
    "ContinuousJudgment": lambda request, draw: _verdicts(request, draw, continuous=True),
    "Scoring": _scoring,
    "ChecklistDraft": _checklist,
    "RubricDraft": _rubric,
    "CaptionAssertions": _assertions,
    "Decomposition": lambda request, draw: _assertions(request, draw, verified=False),
    "Verification": _verification,
    "Exam": _exam,
    "Facts": _facts,
    "FactMatches": _matches,
    "FactChecks": _checks,
    "Opening": _opening,
    "Assessments": _assessments,
    "Selection": _selection,
    "QualityVerdict": lambda request, draw: {
        "annotation_consistent": True,
        "behaviour_matches": True,
        "reason": sentence(draw),
    },
}
"""Class of an answer → its builder."""
