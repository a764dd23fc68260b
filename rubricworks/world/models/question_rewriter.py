"""The scripted VLM that says whether a multiple-choice question about a scene can be asked without its options.

It sees the scene. A question that speaks of its options makes no sense without them; one that more than one object
answers, or whose right option is wrong, has no unique answer. Now and then it errs.
"""

import json

from rubricworks.world.chat import ApiError, ChatRequest, section
from rubricworks.world.scene.captions import View
from rubricworks.world.scene.questions import Query, answer_query, parse_question
from rubricworks.world.scene.questions_export import NEEDS_OPTIONS
from rubricworks.world.scene.scene import Scene, SceneObject, rng_of

ERROR_RATE = 0.03
"""Chance, for each of the two checks, that it comes out the other way."""


def answer_opener(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """Its JSON answer to a request of `synthesis.open_ended_prompts`."""
    if scene is None:
        raise ApiError(400, "question-opener looks at an image; send one as an image_url part", param="messages")
    question, right = section(request.prompt, "question"), section(request.prompt, "right_option")
    if question is None or right is None:
        raise ApiError(400, "question-opener reads <question> and <right_option>; send both", param="messages")
    query = parse_question(question)
    rng = rng_of("opener", seed, request.seed, request.prompt, scene.model_dump_json())
    stands_alone = query is not None and not question.startswith(NEEDS_OPTIONS)
    one_answer = query is not None and answers_of(query, scene) == {right}
    well_posed, unique = (held != (rng.random() < ERROR_RATE) for held in (stands_alone, one_answer))
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
    """Every answer that some reading of the question gives, where several objects are like one that it names."""
    if query.task != "relation":
        return {answer_query(query, scene)}

    def like(colour: str | None, shape: str | None) -> list[SceneObject]:
        return [one for one in scene.objects if (one.colour, one.shape) == (colour, shape)]

    return {
        answer_query(query, View((subject, other)))
        for subject in like(query.colour, query.shape)
        for other in like(query.other_colour, query.other_shape)
    }
