"""Raw exchange with a judge: the requests about one response beside the judge's own answers.

Tables keep answers, not requests. So the grader of the run's recipe is made again, with judges that note what they are
asked and send nothing, and is given the same sample, response and rubric. The digest of what it asks tells whether that
is what was sent: the call cache in the run's folder has its answer under the same digest, and a dead letter names it.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.errors import TransientError, UserError
from rubricworks.llm.cache import CACHE_FILE, find_answer
from rubricworks.platform_api.problems import NotFound
from rubricworks.platform_api.schemas.bodies import JsonObject
from rubricworks.platform_api.schemas.rollouts import (
    CallBody,
    ExchangeBody,
    MessageBody,
    Origin,
    PartBody,
    RolloutBody,
    Shown,
)
from rubricworks.platform_api.services import rollouts
from rubricworks.platform_api.services.dead_letters import letters_of
from rubricworks.platform_api.services.judgements.labels import response_digest
from rubricworks.platform_api.services.rubrics.rubric_sets import find_rubric
from rubricworks.platform_api.services.run_storage import run_folder
from rubricworks.platform_api.services.samples import find_image, find_sample, response_image
from rubricworks.redaction import HIDDEN, is_secret_name, redact
from rubricworks.rubrics import ErrorClass, Response
from rubricworks.runs.store import RunStore
from rubricworks.storage import is_remote, local_path

if TYPE_CHECKING:
    from rubricworks.data.tables import Sample
    from rubricworks.llm import Endpoint


class Exchange(NamedTuple):
    """All that is known of the calls about one response."""

    member: RolloutBody
    body: ExchangeBody


class _Request(NamedTuple):
    judge: int
    """Place among the judges, of whom two may be the same model."""
    endpoint: "Endpoint"
    prompt_version: str
    body: bytes
    key: bytes
    messages: Sequence[JsonObject]


class _NotingJudge:
    """Stands in for a judge's client, notes what it is asked, and answers nothing."""

    def __init__(self, number: int, endpoint: "Endpoint", requests: list[_Request]) -> None:
        self.endpoint, self._number, self._requests, self._version = endpoint, number, requests, ""

    def note_prompt(self, version: str) -> None:
        self._version = version

    async def chat(
        self, messages: Any, response: Any = None, seed: int = 0, *, check: Any = None, probabilities_of: str = ""
    ) -> Any:
        from rubricworks.llm import ChatError
        from rubricworks.llm.logprobs import REQUEST_FIELDS
        from rubricworks.llm.request import RequestFrame

        frame = RequestFrame(self.endpoint, response, REQUEST_FIELDS if probabilities_of else None)
        request = frame.encode(messages, seed)
        self._requests.append(_Request(self._number, self.endpoint, self._version, request.body, request.key, messages))
        raise ChatError(ErrorClass.TRANSPORT, "nothing is sent", attempts=0)


async def exchange_of(
    session: AsyncSession, store: RunStore, run: str, stage: str, step: int, sample_id: str, digest: str
) -> Exchange:
    """Requests and answers about a response of a group.

    Args:
        digest: of the response, as `labels.response_digest` gives it.
    Raises:
        NotFound: there is no such response, or no judge was asked about it.
    """
    members = (await rollouts.get_group(session, store, run, stage, step, sample_id)).rollouts
    judged = [member for member in members if member.judge and response_digest(member.response) == digest]
    if not judged:
        raise NotFound(f"the group of sample {sample_id!r} in step {step} has no such response that was judged")
    member = judged[0]
    try:
        requests = await _requests(session, store, run, stage, sample_id, member)
    except TransientError:
        raise
    except (UserError, NotFound, ValueError, AttributeError, TypeError) as error:
        reason = error.detail if isinstance(error, NotFound) else str(error)
        return Exchange(member, ExchangeBody(calls=[], answers=member.raw, problem=redact(reason)))
    asked = _without_repeats(requests)
    answers = member.raw if len(member.raw) >= len(asked) else [*member.raw, *[""] * len(asked)]
    known = await _recorded(session, store, run, stage, sample_id, asked)
    shown = await _shown_images(session, store, run, stage, sample_id, member)
    calls = [
        CallBody(
            judge=request.endpoint.model,
            prompt_version=request.prompt_version,
            origin=known.get(request.key.hex(), "reconstructed"),
            digest=request.key.hex(),
            options=_options(request.body),
            messages=[_message(message, shown) for message in request.messages],
            answer=answer,
        )
        for request, answer in zip(asked, answers, strict=False)
    ]
    rest = [text for text in answers[len(asked) :] if text]
    problem = "these answers came from calls that depend on the first ones, and are not made again" if rest else ""
    return Exchange(member, ExchangeBody(calls=calls, answers=rest, problem=problem))


async def _requests(
    session: AsyncSession, store: RunStore, run: str, stage: str, sample_id: str, member: RolloutBody
) -> list[_Request]:
    """Requests that the grader of the recipe makes of a response.

    Raises:
        UserError: the recipe cannot be read any more, or its grader asks in a way that is not made again.
        NotFound: the run has no rubric with the criteria of the scorecard, or the image is gone.
    """
    settings = await asyncio.to_thread(_judged_by, store, run, stage)
    rubric = await find_rubric(session, store, run, sample_id, [verdict.criterion for verdict in member.verdicts])
    if rubric is None:
        raise NotFound(f"{run} has no rubric of sample {sample_id!r} with the criteria of this scorecard")
    sample = await _sample(session, store, run, sample_id)
    response = Response(member.response)
    if member.response_type:
        if getattr(settings, "text_reader", None) is not None:
            raise UserError("a reader of text decides some criteria, and what the judge was shown depends on it")
        image = await response_image(store, run, stage, member.response, member.response_type)
        response = Response.of_image(image.content)
    requests: list[_Request] = []
    await _grader(settings, requests).judge_response(sample, response, rubric)
    return requests


def _judged_by(store: RunStore, run: str, stage: str) -> Any:
    """Settings of a stage that name its judge: a training's reward, or the stage's own."""
    # The configurations of all stages take a while to import.
    from rubricworks.recipe.files import load_recipe

    with run_folder(store, run) as folder:
        config = load_recipe(folder / "recipe.yaml").stage_configs().get(stage)
    settings = getattr(config, "reward", config)
    if getattr(settings, "judge", None) is None:
        raise UserError(f"the recipe names no judge of {stage}")
    return settings


def _grader(settings: Any, requests: list[_Request]) -> Any:
    """The grader that a training makes of its options, with judges that note what they are asked."""
    from rubricworks.grading import Grader
    from rubricworks.policy.judges import CascadeJudge, LogprobJudge, combination, graders

    judge = settings.judge
    options = {
        name: getattr(settings, name)
        for name in ("exposure", "call_per", "credits")
        if getattr(settings, name, None) is not None
    }
    options["combine"] = combination(judge)
    if isinstance(judge, CascadeJudge):  # the cheap judge, which is asked about everything
        options["confidence"] = "logprob" if judge.repeats == 1 else "repeats"
        options["repeats"] = judge.repeats
    elif isinstance(judge, LogprobJudge):
        options["credits"] = "logprob"
    judges = [_NotingJudge(at, endpoint, requests) for at, endpoint in enumerate(graders(judge))]
    return Grader(cast("Any", judges), **options)


async def _sample(session: AsyncSession, store: RunStore, run: str, sample_id: str) -> "Sample":
    from rubricworks.data.tables import Sample

    text = await find_sample(session, store, run, sample_id)
    image = await find_image(session, store, run, sample_id)
    return Sample(sample_id=sample_id, image=image, prompt=text.prompt, question=text.question or None)


async def _recorded(
    session: AsyncSession, store: RunStore, run: str, stage: str, sample_id: str, requests: Sequence[_Request]
) -> dict[str, Origin]:
    """Digests of requests that the run certainly made, with the evidence."""
    origins: dict[str, Origin] = {}
    for letter in await letters_of(session, store, run):
        if letter.folder == stage and letter.sample_id == sample_id and letter.request:
            origins[letter.request] = "dead letter"
    if not is_remote(store.uri):
        cache = local_path(store.uri) / run / CACHE_FILE
        for request in requests:
            if await asyncio.to_thread(_has_answer, cache, request.key):
                origins[request.key.hex()] = "call cache"
    return origins


def _has_answer(cache: Any, key: bytes) -> bool:
    try:
        return cache.is_file() and not cache.is_symlink() and find_answer(cache, key) is not None
    except UserError:  # damaged, or of another version
        return False


async def _shown_images(
    session: AsyncSession, store: RunStore, run: str, stage: str, sample_id: str, member: RolloutBody
) -> dict[str, Shown]:
    """Data URL of each image that the page can show in its place."""
    from rubricworks.llm import image_part

    names: dict[str, Shown] = {}
    contents: list[tuple[bytes | None, Shown]] = [(await find_image(session, store, run, sample_id), "sample")]
    if member.response_type:
        image = await response_image(store, run, stage, member.response, member.response_type)
        contents.append((image.content, "response"))
    for content, name in contents:
        if content:
            names[image_part(content)["image_url"]["url"]] = name
    return names


def _options(body: bytes) -> JsonObject:
    fields: JsonObject = json.loads(body)
    return {name: _without_secrets(name, value) for name, value in fields.items() if name != "messages"}


def _without_secrets(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_secrets(key, inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_secrets(name, inner) for inner in value]
    if isinstance(value, str):
        return HIDDEN if is_secret_name(name) else redact(value)
    return value


def _without_repeats(requests: Sequence[_Request]) -> list[_Request]:
    """First draw of each call, which is the one in the table."""
    first: dict[tuple[int, str], _Request] = {}
    for request in requests:
        contents = json.dumps([message["content"] for message in request.messages])
        first.setdefault((request.judge, contents), request)
    return list(first.values())


def _message(message: JsonObject, shown: Mapping[str, Shown]) -> MessageBody:
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return MessageBody(role=message["role"], parts=[_part(part, shown) for part in parts])


def _part(part: JsonObject, shown: Mapping[str, Shown]) -> PartBody:
    if part["type"] == "text":
        return PartBody(text=redact(part["text"]), image=None)
    return PartBody(text="", image=shown.get(part["image_url"]["url"], "other"))
