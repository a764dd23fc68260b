"""Three scripted judges that split a caption into assertions, as BalCapRL's prompts ask (appendices A.2, A.4).

They answer in one request, or in two: the assertions from text alone, then the truth of listed assertions. A request
for truth names its test in a line `TEST:`. A remark can neither be pointed to nor justified by what is visible, so only
a test that asks for neither accepts one; broken words make no claim and pass no test.

A judge's errors depend on judge, scene, caption and assertion alone, so that judging a caption again does not remove
an error.
"""

import json
import re
from collections.abc import Callable
from typing import NamedTuple

from rubricworks.world.chat import ApiError, ChatRequest, section
from rubricworks.world.scene.caption_quality import RATING_NOISE, count_odd_pairs, rate_writing
from rubricworks.world.scene.parsing import sentences
from rubricworks.world.scene.scene import Scene, rng_of
from rubricworks.world.scene.statements import (
    caption_mentions,
    is_supported,
    read_statement,
    restore_synonyms,
    scene_mentions,
    statements,
)


class AssertionJudge(NamedTuple):
    error_rate: float
    """Probability, per assertion, that `is_verified` or `is_covered` is wrong."""
    rating_noise: float
    """Standard deviation of the noise on its writing scores, in points."""


ASSERTION_JUDGES = {
    "assertion-judge": AssertionJudge(0.03, RATING_NOISE),
    "assertion-judge-mini": AssertionJudge(0.06, 2 * RATING_NOISE),
    "assertion-judge-strong": AssertionJudge(0.01, RATING_NOISE / 2),
}
MAX_ASSERTIONS = 1_000
NOTHING_TO_ASSESS = "I assess captions; send <caption> and <reference>, or an image and <assertions>."

_TEST = re.compile(r"^TEST: *(.+)$", re.MULTILINE)
_MIN_REMARK_WORDS = 3


def assertion_judge_reply(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """The JSON answer to a request of `grading.assertions.prompts`; prose without a caption or assertions."""
    test = _TEST.search(request.system)
    if test is not None and scene is None:
        raise ApiError(400, f"{request.model} looks at an image; send one as an image_url part", param="messages")
    judge = ASSERTION_JUDGES[request.model]
    caption, reference = section(request.prompt, "caption"), section(request.prompt, "reference")
    assertions = _read_assertions(section(request.prompt, "assertions"))

    def errs(*question: object) -> bool:
        return rng_of("assertion", request.model, seed, *question).random() < judge.error_rate

    def verify(text: str) -> bool:
        question = ("verified", scene.model_dump_json() if scene else "", caption, text)
        return passes_test(text, scene, remarks_pass=_accepts_remarks(test)) != errs(*question)

    if caption is not None and reference is not None:
        assessment = _assessment(caption, reference, request.model, judge, verify if test else None, errs)
        return json.dumps(assessment)
    if assertions is not None and scene is not None:
        checks = [{"id": number, "text": text, "is_verified": verify(text)} for number, text in assertions]
        return json.dumps({"assertions": checks})
    return NOTHING_TO_ASSESS


def passes_test(text: str, scene: Scene | None, *, remarks_pass: bool) -> bool:
    """Return True if the assertion's claims are true in the scene, or if it is a remark and remarks pass."""
    if scene is None:
        return False
    view = scene_mentions(scene)
    claims = read_statement(text)
    return bool(claims) and all(
        is_supported(claim, view) if claim.remark is None else remarks_pass and _makes_sense(claim.remark)
        for claim in claims
    )


def _assessment(
    caption: str,
    reference: str,
    name: str,
    judge: AssertionJudge,
    verify: Callable[[str], bool] | None,
    errs: Callable[..., bool],
) -> dict[str, object]:
    """The answer about a caption; without `verify` it leaves out `is_verified`."""
    clarity, flow, coherency = rate_writing(caption, rater=name, noise=judge.rating_noise)
    claims = [restore_synonyms(caption, claim.text) for claim in statements(caption)[:MAX_ASSERTIONS]]
    view, remarks = caption_mentions(caption), {claim.remark for claim in statements(caption) if claim.remark}
    covered = [
        {
            "text": restore_synonyms(reference, claim.text),
            "is_covered": (is_supported(claim, view) or claim.remark in remarks)
            != errs("covered", caption, reference, claim.text),
        }
        for claim in statements(reference)[:MAX_ASSERTIONS]
    ]
    return {
        "synthetic_features": {
            "atomic_assertions": [
                {"text": text} if verify is None else {"text": text, "is_verified": verify(text)} for text in claims
            ],
            "clarity_score": clarity,
            "fluency_score": flow,
            "coherency_score": coherency,
            "linguistic_scores_explanation": _explain(clarity, flow, coherency),
        },
        "gt_features": {"atomic_assertions": covered},
    }


def _explain(clarity: int, flow: int, coherency: int) -> str:
    faults = [
        fault
        for points, fault in (
            (clarity, "it repeats itself, is vague or too long"),
            (flow, "its sentences are broken, unfinished or one long list"),
            (coherency, "it jumps about or contradicts itself"),
        )
        if points < 9
    ]
    return f"The caption has faults: {'; '.join(faults)}." if faults else "The caption reads well."


def _accepts_remarks(test: re.Match[str] | None) -> bool:
    """Return True unless the request's test asks that one can point to the content, or to evidence of it."""
    return test is not None and "point" not in test[1]


def _makes_sense(remark: str) -> bool:
    odd_pairs = map(count_odd_pairs, filter(None, sentences(remark)))
    return len(remark.split()) >= _MIN_REMARK_WORDS and not any(odd_pairs)


def _read_assertions(text: str | None) -> list[tuple[int, str]] | None:
    try:
        return [(int(row["id"]), str(row["text"])) for row in json.loads(text or "")]
    except (ValueError, KeyError, TypeError):
        return None
