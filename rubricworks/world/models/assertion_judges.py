"""Three scripted judges that take a caption apart into assertions, as BalCapRL's prompts ask (appendices A.2, A.4).

They answer all at once, or in two halves: the assertions from text alone, then the truth of given ones. Where a
request asks for truth, its line `TEST:` says which test applies. A remark can neither be pointed to nor justified by
what is visible, so only the test that asks for neither accepts one; broken words make no claim and pass none.

What a judge gets wrong depends on judge, scene, caption and assertion alone, so that no caption gets rid of an error by
being judged again.
"""

import json
import re
from collections.abc import Callable
from typing import NamedTuple

from rubricworks.world.chat import ApiError, ChatRequest, section
from rubricworks.world.scene.caption_quality import RATING_NOISE, fluency, slips
from rubricworks.world.scene.parsing import sentences
from rubricworks.world.scene.scene import Scene, rng_of
from rubricworks.world.scene.statements import (
    borne_out,
    in_words_of,
    read_statement,
    statements,
    view_of_caption,
    view_of_scene,
)


class AssertionJudge(NamedTuple):
    error_rate: float
    """Chance, per assertion, that what it says of its truth, or of its being covered, is wrong."""
    rating_noise: float
    """Standard deviation of what its ratings of the writing add to the rules', in points."""


ASSERTION_JUDGES = {
    "assertion-judge": AssertionJudge(0.03, RATING_NOISE),
    "assertion-judge-mini": AssertionJudge(0.06, 2 * RATING_NOISE),
    "assertion-judge-strong": AssertionJudge(0.01, RATING_NOISE / 2),
}
MOST_ASSERTIONS = 1_000
NOTHING_TO_ASSESS = "I assess captions; send <caption> and <reference>, or an image and <assertions>."

_TEST = re.compile(r"^TEST: *(.+)$", re.MULTILINE)
_FEWEST_WORDS_OF_A_REMARK = 3


def answer_assertion_judge(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """Its JSON answer to a request of `grading.assertion_prompts`; prose when there is nothing to assess."""
    test = _TEST.search(request.system)
    if test is not None and scene is None:
        raise ApiError(400, f"{request.model} looks at an image; send one as an image_url part", param="messages")
    judge = ASSERTION_JUDGES[request.model]
    caption, reference = section(request.prompt, "caption"), section(request.prompt, "reference")
    listed = section(request.prompt, "assertions")

    def errs(*question: object) -> bool:
        return rng_of("assertion", request.model, seed, *question).random() < judge.error_rate

    def verified(text: str) -> bool:
        asked = ("verified", scene.model_dump_json() if scene else "", caption, text)
        return holds(text, scene, remarks_pass=_accepts_remarks(test)) != errs(*asked)

    if caption is not None and reference is not None:
        shown = None if test is None else verified
        return json.dumps(_assessment(caption, reference, request.model, judge, shown, errs))
    if (assertions := _read_list(listed)) is not None and scene is not None:
        checks = [{"id": number, "text": text, "is_verified": verified(text)} for number, text in assertions]
        return json.dumps({"assertions": checks})
    return NOTHING_TO_ASSESS


def holds(text: str, scene: Scene | None, *, remarks_pass: bool) -> bool:
    """Whether an assertion passes: its claims are true in the scene, or it is a remark and remarks pass."""
    if scene is None:
        return False
    view = view_of_scene(scene)
    claims = read_statement(text)
    return bool(claims) and all(
        borne_out(claim, view) if claim.remark is None else remarks_pass and _makes_sense(claim.remark)
        for claim in claims
    )


def _assessment(
    caption: str,
    reference: str,
    name: str,
    judge: AssertionJudge,
    verified: Callable[[str], bool] | None,
    errs: Callable[..., bool],
) -> dict[str, object]:
    """The answer about a caption; without `verified` it says nothing of truth."""
    clarity, flow, coherency = fluency(caption, rater=name, noise=judge.rating_noise)
    claimed = [in_words_of(caption, claim.text) for claim in statements(caption)[:MOST_ASSERTIONS]]
    said, remarks = view_of_caption(caption), {claim.remark for claim in statements(caption) if claim.remark}
    covered = [
        {
            "text": in_words_of(reference, claim.text),
            "is_covered": (borne_out(claim, said) or claim.remark in remarks)
            != errs("covered", caption, reference, claim.text),
        }
        for claim in statements(reference)[:MOST_ASSERTIONS]
    ]
    return {
        "synthetic_features": {
            "atomic_assertions": [
                {"text": text} if verified is None else {"text": text, "is_verified": verified(text)}
                for text in claimed
            ],
            "clarity_score": clarity,
            "fluency_score": flow,
            "coherency_score": coherency,
            "linguistic_scores_explanation": _explained(clarity, flow, coherency),
        },
        "gt_features": {"atomic_assertions": covered},
    }


def _explained(clarity: int, flow: int, coherency: int) -> str:
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
    """Whether the request's test leaves out that one can point to what is said, or to evidence of it."""
    return test is not None and "point" not in test[1]


def _makes_sense(remark: str) -> bool:
    return len(remark.split()) >= _FEWEST_WORDS_OF_A_REMARK and not any(map(slips, filter(None, sentences(remark))))


def _read_list(listed: str | None) -> list[tuple[int, str]] | None:
    try:
        return [(int(row["id"]), str(row["text"])) for row in json.loads(listed or "")]
    except (ValueError, KeyError, TypeError):
        return None
