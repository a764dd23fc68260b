"""Two scripted models of visual questions: the judge of open answers, and the VLM that opens multiple-choice questions.

`answer-judge` accepts a short answer that means the same as the reference, without faults.

`question-opener` rewrites a multiple-choice question as an open one, if that is possible. It sees the scene. A question
that refers to its options is not well-posed without them; a question that several objects answer, or whose right option
is wrong, has no unique answer. It errs at a stated rate.
"""

import json

from rubricworks.world.chat import ApiError, ChatRequest, section
from rubricworks.world.scene.captions import View
from rubricworks.world.scene.questions import Query, answer_query, parse_question
from rubricworks.world.scene.questions_export import NEEDS_OPTIONS
from rubricworks.world.scene.scene import Scene, SceneObject, rng_of

_SYNONYMS = {
    "violet": "purple",
    "left of": "left",
    "to the left": "left",
    "on the left": "left",
    "right of": "right",
    "to the right": "right",
    "on the right": "right",
    "over": "above",
    "under": "below",
    "beneath": "below",
}


def answer_judge_reply(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """One JSON object: reason, right."""
    answer, reference = (_plain(section(request.prompt, tag) or "") for tag in ("answer", "reference"))
    right = bool(answer) and answer == reference
    reason = f"the answer is {answer or 'empty'}, the reference {reference}"
    return json.dumps({"reason": reason, "right": right})


def _plain(text: str) -> str:
    words = " ".join(text.lower().strip(" .!\n").split()).removeprefix("the ").removeprefix("a ")
    return _SYNONYMS.get(words, words)


ERROR_RATE = 0.03
"""Probability, for each of the two checks, that its result is flipped."""


def question_rewriter_reply(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """The JSON answer to a request of `synthesis.open_ended_prompts`."""
    if scene is None:
        raise ApiError(400, "question-opener looks at an image; send one as an image_url part", param="messages")
    question, right = section(request.prompt, "question"), section(request.prompt, "right_option")
    if question is None or right is None:
        raise ApiError(400, "question-opener reads <question> and <right_option>; send both", param="messages")
    query = parse_question(question)
    rng = rng_of("opener", seed, request.seed, request.prompt, scene.model_dump_json())
    stands_alone = query is not None and not question.startswith(NEEDS_OPTIONS)
    one_answer = query is not None and answers_of(query, scene) == {right}
    well_posed, unique = (result != (rng.random() < ERROR_RATE) for result in (stands_alone, one_answer))
    return json.dumps(
        {
            "reason": f"Without options it {'stands alone' if well_posed else 'does not say what is asked'}; "
            f"{'one answer is' if unique else 'not exactly one answer is'} right.",
            "well_posed": well_posed,
            "unique_answer": unique,
            "question": question.removeprefix(NEEDS_OPTIONS).strip() if well_posed and unique else question,
            "answer": right,
        }
    )


def answers_of(query: Query, scene: Scene) -> set[str | None]:
    """All possible answers, one for each choice of objects that fit the question's nouns."""
    if query.task != "relation":
        return {answer_query(query, scene)}

    def like(colour: str | None, shape: str | None) -> list[SceneObject]:
        return [item for item in scene.objects if (item.colour, item.shape) == (colour, shape)]

    return {
        answer_query(query, View((subject, other)))
        for subject in like(query.colour, query.shape)
        for other in like(query.other_colour, query.other_shape)
    }
