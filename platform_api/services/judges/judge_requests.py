"""Raw exchange with a judge: the requests about one response beside the judge's own answers.

Tables keep answers, not requests. So the grader of the run's recipe is made again, with judges that note what they are
asked and send nothing, and is given the same sample, response and rubric. The digest of what it asks tells whether that
is what was sent: the call cache in the run's folder has its answer under the same digest, and a dead letter names it.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.errors import TransientError, UserError
from rubricworks.llm.cache import CACHE_FILE, find_answer
from rubricworks.platform_api.problems import NotFound
from rubricworks.platform_api.services import images, rollouts
from rubricworks.platform_api.services.dead_letters import choose_letters, letters_of
from rubricworks.platform_api.services.labels import response_digest
from rubricworks.platform_api.services.rubrics.graded_rubrics import find_rubric
from rubricworks.platform_api.services.run_copies import run_folder
from rubricworks.platform_api.services.samples import find_image, find_sample
from rubricworks.redaction import HIDDEN, is_secret_name, redact
from rubricworks.rubrics import ErrorClass, Response
from rubricworks.runs.store import RunStore
from rubricworks.storage import is_remote, local_path

if TYPE_CHECKING:
    from rubricworks.data.tables import Sample
    from rubricworks.llm import Endpoint

Origin = Literal["call cache", "dead letter", "reconstructed"]
Shown = Literal["sample", "response", "other"]


class Part(NamedTuple):
    """A part of a message: a text, or an image in place of its bytes."""

    text: str
    image: Shown | None
    """Image that is sent: the sample's, the response itself, or one made from it; None for a text."""


class Message(NamedTuple):
    """A message of a request."""

    role: str
    parts: list[Part]


class Call(NamedTuple):
    """One call of a judge."""

    judge: str
    """Name of the model."""
    prompt_version: str
    origin: Origin
    digest: str
    """Digest of the request: its key in the call cache, and the `request` of a dead letter."""
    options: dict[str, Any]
    """Fields of the request but for the messages."""
    messages: list[Message]
    answer: str


class Exchange(NamedTuple):
    """All that is known of the calls about one response."""

    member: dict[str, Any]
    """The rollout, as `rollouts.get_group` has it."""
    calls: list[Call]
    answers: list[str]
    """Answers whose requests could not be made again."""
    problem: str
    """Reason for that; empty if there is none."""


class _Request(NamedTuple):
    judge: int
    """Place among the judges, of whom two may be the same model."""
    endpoint: "Endpoint"
    prompt_version: str
    body: bytes
    key: bytes
    messages: Sequence[Mapping[str, Any]]


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
    members = await rollouts.get_group(session, store, run, stage, step, sample_id)
    member = next((one for one in members if response_digest(one["response"]) == digest and one["judge"]), None)
    if member is None:
        raise NotFound(f"the group of sample {sample_id!r} in step {step} has no such response that was judged")
    try:
        requests = await _requests(session, store, run, stage, sample_id, member)
    except TransientError:
        raise
    except (UserError, NotFound, ValueError, AttributeError, TypeError) as error:
        reason = error.detail if isinstance(error, NotFound) else str(error)
        return Exchange(member, [], member["raw"], redact(reason))
    asked = _without_repeats(requests)
    answers = member["raw"] if len(member["raw"]) >= len(asked) else [*member["raw"], *[""] * len(asked)]
    known = await _recorded(session, store, run, stage, sample_id, asked)
    shown = await _shown_images(session, store, run, stage, sample_id, member)
    calls = [
        Call(
            one.endpoint.model,
            one.prompt_version,
            known.get(one.key.hex(), "reconstructed"),
            one.key.hex(),
            _options(one.body),
            [_message(message, shown) for message in one.messages],
            answer,
        )
        for one, answer in zip(asked, answers, strict=False)
    ]
    rest = [text for text in answers[len(asked) :] if text]
    problem = "these answers came from calls that depend on the first ones, and are not made again" if rest else ""
    return Exchange(member, calls, rest, problem)


async def _requests(
    session: AsyncSession, store: RunStore, run: str, stage: str, sample_id: str, member: dict[str, Any]
) -> list[_Request]:
    """Requests that the grader of the recipe makes of a response.

    Raises:
        UserError: the recipe cannot be read any more, or its grader asks in a way that is not made again.
        NotFound: the run has no rubric with the criteria of the scorecard, or the image is gone.
    """
    config = await asyncio.to_thread(_stage_config, store, run, stage)
    rubric = await find_rubric(session, store, run, sample_id, [one["criterion"] for one in member["verdicts"]])
    if rubric is None:
        raise NotFound(f"{run} has no rubric of sample {sample_id!r} with the criteria of this scorecard")
    sample = await _sample(session, store, run, sample_id)
    response = Response(member["response"])
    if member["response_type"]:
        if getattr(config, "text_reader", None) is not None:
            raise UserError("a reader of text decides some criteria, and what the judge was shown depends on it")
        image = await images.response_image(store, run, stage, member["response"], member["response_type"])
        response = Response.of_image(image.content)
    requests: list[_Request] = []
    await _grader(config, requests).judge_response(sample, response, rubric)
    return requests


def _stage_config(store: RunStore, run: str, stage: str) -> Any:
    # The configurations of all stages take a while to import.
    from rubricworks.recipe.files import load_recipe

    with run_folder(store, run) as folder:
        config = load_recipe(folder / "recipe.yaml").stage_configs().get(stage)
    if getattr(config, "judge", None) is None:
        raise UserError(f"the recipe names no judge of {stage}")
    return config


def _grader(config: Any, requests: list[_Request]) -> Any:
    """The grader that a training makes of its options, with judges that note what they are asked."""
    from rubricworks.grading import Grader

    options = {
        name: getattr(config, name)
        for name in ("exposure", "call_per", "combine", "credits")
        if getattr(config, name, None) is not None
    }
    if escalation := getattr(config, "escalate_to", None):  # the cheap judge, which is asked about everything
        options["confidence"] = "logprob" if escalation.repeats == 1 else "repeats"
        options["repeats"] = escalation.repeats
    judges = [_NotingJudge(number, one, requests) for number, one in enumerate((config.judge, *config.more_judges))]
    return Grader(cast("Any", judges), **options)


async def _sample(session: AsyncSession, store: RunStore, run: str, sample_id: str) -> "Sample":
    from rubricworks.data.tables import Sample

    text = await find_sample(session, store, run, sample_id)
    image = await find_image(session, store, run, sample_id)
    return Sample(sample_id=sample_id, image=image, prompt=text.prompt, question=text.question or None)


async def _recorded(
    session: AsyncSession, store: RunStore, run: str, stage: str, sample_id: str, requests: Sequence[_Request]
) -> dict[str, Origin]:
    """Digests of requests that the run made for sure, with what tells so."""
    origins: dict[str, Origin] = {}
    letters = choose_letters(await letters_of(session, store, run), stage, None)
    for letter in letters:
        if letter["sample_id"] == sample_id and letter["request"]:
            origins[letter["request"]] = "dead letter"
    if not is_remote(store.uri):
        cache = local_path(store.uri) / run / CACHE_FILE
        for one in requests:
            if await asyncio.to_thread(_has_answer, cache, one.key):
                origins[one.key.hex()] = "call cache"
    return origins


def _has_answer(cache: Any, key: bytes) -> bool:
    try:
        return cache.is_file() and find_answer(cache, key) is not None
    except UserError:  # locked, or of another version
        return False


async def _shown_images(
    session: AsyncSession, store: RunStore, run: str, stage: str, sample_id: str, member: dict[str, Any]
) -> dict[str, Shown]:
    """Data URL of each image that the page can show in its place."""
    from rubricworks.llm import image_part

    found: dict[str, Shown] = {}
    contents: list[tuple[bytes | None, Shown]] = [(await find_image(session, store, run, sample_id), "sample")]
    if member["response_type"]:
        image = await images.response_image(store, run, stage, member["response"], member["response_type"])
        contents.append((image.content, "response"))
    for content, name in contents:
        if content:
            found[image_part(content)["image_url"]["url"]] = name
    return found


def _options(body: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(body)
    return {name: _without_secrets(name, value) for name, value in fields.items() if name != "messages"}


def _without_secrets(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_secrets(key, one) for key, one in value.items()}
    if isinstance(value, list):
        return [_without_secrets(name, one) for one in value]
    if isinstance(value, str):
        return HIDDEN if is_secret_name(name) else redact(value)
    return value


def _without_repeats(requests: Sequence[_Request]) -> list[_Request]:
    """The first draw of each call, whose answer is the one that the table keeps."""
    first: dict[tuple[int, str], _Request] = {}
    for one in requests:
        first.setdefault((one.judge, json.dumps([message["content"] for message in one.messages])), one)
    return list(first.values())


def _message(message: Mapping[str, Any], shown: Mapping[str, Shown]) -> Message:
    content = message["content"]
    parts: list[Any] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return Message(
        message["role"],
        [
            Part(redact(one["text"]), None)
            if one["type"] == "text"
            else Part("", shown.get(one["image_url"]["url"], "other"))
            for one in parts
        ],
    )
