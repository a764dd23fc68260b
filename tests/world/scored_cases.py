"""Questions about scenes with their checklists, put to a scripted scorer without a server."""

from collections.abc import Iterator

from rubricworks.data.tables import Sample
from rubricworks.grading import Exposure, Scoring, check_scoring, request_with_exposure, scoring_messages, verdicts_of
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.world.chat import read_request
from rubricworks.world.models.scorers import scorer_reply
from rubricworks.world.scene.captions import describe
from rubricworks.world.scene.checklist_sentences import (
    answer_criterion,
    step_criterion,
)
from rubricworks.world.scene.questions import (
    TASKS,
    Query,
    answer_query,
    draw_query,
    subjects_of,
    write_question,
)
from rubricworks.world.scene.scene import Scene, SceneObject, generate_scenes, rng_of

SCENES = list(generate_scenes(11, 500))
SCENE = Scene(
    objects=(
        SceneObject(cell="top-left", size="big", colour="red", shape="circle"),
        SceneObject(cell="center", size="small", colour="red", shape="star"),
    ),
    word="CAT",
)
COUNT = Query("count", colour="red")
PNG = b"\x89PNG\r\n\x1a\n"
"""Where a scorer is asked without a server, the scene is handed to it."""
TEACHERS = ("scorer-1", "scorer-2", "scorer-3")


def checklist(query: Query, scene: Scene) -> Rubric:
    """Checklist in the world writers' form: verifiers for numbers, words and boxes, a judge for colours and sides."""
    answer = answer_query(query, scene)
    calls = {
        "count": f"expr_verify(target={answer!r})",
        "word": f"text_verify(target={answer!r}, ignore_case=True)",
        "box": f"bbox_verify(target={answer})",
    }
    steps = (
        Criterion(criterion=step_criterion(item.cell), reference=f"a {describe(item)}", weight=1, essential=False)
        for item in subjects_of(query, scene)
    )
    final = Criterion(criterion=answer_criterion(query, False), reference=calls.get(query.task, str(answer)), weight=3)
    return Rubric(criteria=(final, *steps))


def ask(
    model: str, query: Query, scene: Scene, response: str, exposure: Exposure = "text", complaint: str = ""
) -> tuple[str, list[float | None]]:
    """A scorer's answer and the credits that it comes to; no credits where it does not fit."""
    sample = Sample(sample_id="s", image=PNG, question=write_question(query))
    rubric = checklist(query, scene)
    request = request_with_exposure(sample, response, rubric, exposure)
    messages = scoring_messages(request)
    if complaint:
        messages += [{"role": "assistant", "content": "?"}, {"role": "user", "content": complaint}]
    chat = read_request({"model": model, "messages": messages})
    text = scorer_reply(chat, None if chat.image is None else scene, 0)
    try:
        scoring = Scoring.model_validate_json(text)
        check_scoring(scoring, request)
    except ValueError:
        return text, []
    return text, [verdict.credit for verdict in verdicts_of(scoring, rubric)]


def cases(count: int) -> Iterator[tuple[Query, Scene]]:
    for index in range(count):
        rng, scene = rng_of("case", index), SCENES[index % len(SCENES)]
        query = None
        while query is None:
            query = draw_query(scene, rng.choice(TASKS), rng)
        yield query, scene
