"""HTTP server of the world's scripted models in the OpenAI dialect, and of the oracle.

    POST /v1/chat/completions   the models in `MODELS`
    GET  /v1/models
    POST /oracle/score          {"image": <data URL>, "captions": [...]} -> {"scores": [...]}
    POST /pictures/detect       {"image": <data URL>} -> {"detections": {class: [{"box", "color"}]}}, the oracle of
                                text-to-image
    GET  /healthz

A client uses `<url>/v1` as its base URL. The server knows the scenes of one exported folder and looks up an image by
its pixels. It answers from one thread: every model takes a fraction of a millisecond.
"""

import asyncio
import json
import logging
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from aiohttp import web
from PIL import Image

from rubricworks.errors import UserError
from rubricworks.listening import listen, url_of
from rubricworks.llm.preflight import QUESTION
from rubricworks.world.chat import ApiError, ChatRequest, decode_data_url, read_request, write_reply
from rubricworks.world.models.abnormal import (
    QUALITY_JUDGES,
    abnormal_writer_reply,
    quality_judge_reply,
    red_teamer_reply,
)
from rubricworks.world.models.assertion_judges import ASSERTION_JUDGES, assertion_judge_reply
from rubricworks.world.models.caption_metrics import (
    exam_taker_reply,
    exam_writer_reply,
    fact_judge_reply,
    graph_parser_reply,
)
from rubricworks.world.models.captioners import (
    PRETRAINING_CAPTIONERS,
    TEACHERS,
    pretraining_caption,
    recaptioner_reply,
    teacher_caption,
)
from rubricworks.world.models.checklist_writers import CHECKLIST_WRITERS, checklist_merger_reply, checklist_writer_reply
from rubricworks.world.models.criteria_reader import asks_for_reading, reading_reply
from rubricworks.world.models.image_judges import (
    arena_judge_reply,
    likert_judge_reply,
    pairwise_judge_reply,
    ranking_judge_reply,
)
from rubricworks.world.models.judges import (
    cheap_judge_logprobs,
    cheap_judge_reply,
    gullible_judge_reply,
    image_reading_judge_reply,
    judge_reply,
    master_key_judge_reply,
    uneven_judge_reply,
)
from rubricworks.world.models.question_models import answer_judge_reply, question_rewriter_reply
from rubricworks.world.models.rubric_fixer import asks_for_pitfalls, pitfalls_reply, writer_reply
from rubricworks.world.models.scorers import SCORERS, scorer_reply
from rubricworks.world.models.writer import lenient_rubric_writer_reply
from rubricworks.world.pictures.detector import as_geneval, detect
from rubricworks.world.pictures.drawing import colour_of, read_pixels
from rubricworks.world.pictures.picture_judge import (
    PICTURE_JUDGES,
    picture_judge_reply,
    picture_questions_reply,
    picture_reader_reply,
)
from rubricworks.world.pictures.picture_scorers import PICTURE_SCORERS, picture_score_reply
from rubricworks.world.pictures.prompt_rubric_writer import prompt_rubric_writer_reply
from rubricworks.world.scene.oracle import score_caption
from rubricworks.world.scene.scene import Scene
from rubricworks.world.scene.scene_index import SceneIndex, UnknownImage, read_scene_index

Reply = Callable[[ChatRequest, Scene | None, int], str]
"""A model: its reply to a request, given the scene of the request's image (None without one) and the world's seed."""

BALCAPRL_MODELS: Mapping[str, Reply] = {
    "recaptioner": recaptioner_reply,
    **dict.fromkeys(ASSERTION_JUDGES, assertion_judge_reply),
    "arena-judge": arena_judge_reply,
    "exam-writer": exam_writer_reply,
    "exam-taker": exam_taker_reply,
    "fact-judge": fact_judge_reply,
    "graph-parser": graph_parser_reply,
    "ranking-judge": ranking_judge_reply,
}
RLR3_MODELS: Mapping[str, Reply] = {
    **dict.fromkeys(CHECKLIST_WRITERS, checklist_writer_reply),
    "checklist-merger": checklist_merger_reply,
    **dict.fromkeys(SCORERS, scorer_reply),
    "question-opener": question_rewriter_reply,
    "abnormal-writer": abnormal_writer_reply,
    **dict.fromkeys(QUALITY_JUDGES, quality_judge_reply),
    "red-teamer": red_teamer_reply,
    "answer-judge": answer_judge_reply,
}
PRETRAINING_MODELS: Mapping[str, Reply] = dict.fromkeys(PRETRAINING_CAPTIONERS, pretraining_caption)
PICTURE_MODELS: Mapping[str, Callable[[ChatRequest, int], str]] = {
    "prompt-rubric-writer": prompt_rubric_writer_reply,
    **dict.fromkeys(PICTURE_JUDGES, picture_judge_reply),
    "picture-reader": picture_reader_reply,
    "picture-answerer": picture_questions_reply,
    **dict.fromkeys(PICTURE_SCORERS, picture_score_reply),
}
"""Models for text-to-image; a generated picture is none of the world's images, so they get the request and the seed."""


MODELS = (
    *TEACHERS, "rubric-writer", "lenient-rubric-writer", "judge", "pairwise-judge", "likert-judge",
    "cheap-judge", "uneven-judge", "gullible-judge", "master-key-judge", "image-reading-judge",
    *RLR3_MODELS, *BALCAPRL_MODELS, *PICTURE_MODELS, *PRETRAINING_MODELS,
)  # fmt: skip
_TEXT_MODELS: dict[str, Callable[[str], str]] = {
    "judge": judge_reply,
    "cheap-judge": cheap_judge_reply,
    "uneven-judge": uneven_judge_reply,
    "rubric-writer": writer_reply,
    "lenient-rubric-writer": lenient_rubric_writer_reply,
    "gullible-judge": gullible_judge_reply,
    "master-key-judge": master_key_judge_reply,
}
_RUBRIC_WRITERS = frozenset({"rubric-writer", "lenient-rubric-writer"})
_BLIND = frozenset({"judge", "cheap-judge", "uneven-judge", "gullible-judge", "master-key-judge"})
_READERS = _BLIND | {"image-reading-judge", *SCORERS}
"""Judges of texts, which read a rubric's criteria as well."""
_PIPELINE_MODELS: Mapping[str, Reply] = {**RLR3_MODELS, **BALCAPRL_MODELS, **PRETRAINING_MODELS}
_BODY_LIMIT = 64 * 2**20
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_log = logging.getLogger(__name__)


class World:
    """The models over one index of scenes."""

    def __init__(self, scenes: SceneIndex, seed: int = 0) -> None:
        self.scenes = scenes
        self.seed = seed

    def answer(self, request: ChatRequest) -> str:
        """The requested model's reply.

        Raises:
            ApiError: no such model, or no image of this world for a model that needs one.
        """
        if request.model in _BLIND and request.image is not None:
            raise ApiError(400, f"{request.model} is a text model and takes no images", param="messages")
        if request.model in MODELS and request.image is not None and request.prompt == QUESTION:
            return self.colour(request.image)
        if request.model in _RUBRIC_WRITERS and asks_for_pitfalls(request.prompt):
            return pitfalls_reply(request.prompt)
        if request.model in _READERS and asks_for_reading(request.prompt):
            return reading_reply(request.prompt)
        if request.model in _TEXT_MODELS:
            return _TEXT_MODELS[request.model](request.prompt)
        if request.model in PICTURE_MODELS:
            return PICTURE_MODELS[request.model](request, self.seed)
        if request.model in _PIPELINE_MODELS:
            image_scene = None if request.image is None else self.find(request.image)[1]
            return _PIPELINE_MODELS[request.model](request, image_scene, self.seed)
        if request.model == "image-reading-judge":
            word = None if request.image is None else self.find(request.image)[1].word
            return image_reading_judge_reply(request.prompt, word)
        if request.model not in MODELS:
            names = ", ".join(MODELS)
            raise ApiError(
                404,
                f"the model {request.model!r} does not exist; this server has {names}",
                code="model_not_found",
                param="model",
            )
        if request.image is None:
            raise ApiError(400, f"{request.model} looks at an image; send one as an image_url part", param="messages")
        digest, scene = self.find(request.image)
        if request.model == "pairwise-judge":
            return pairwise_judge_reply(request.prompt, scene, digest, seed=self.seed)
        if request.model == "likert-judge":
            return likert_judge_reply(request.prompt, scene, digest, seed=self.seed)
        return teacher_caption(request.model, scene, digest, request_seed=request.seed, world_seed=self.seed)

    def colour(self, image: bytes) -> str:
        try:
            return colour_of(image)
        except (OSError, ValueError, Image.DecompressionBombError) as error:
            raise ApiError(400, "the image is not a readable PNG or JPEG file", param="messages") from error

    def find(self, image: bytes) -> tuple[str, Scene]:
        try:
            return self.scenes.find(image)
        except UnknownImage as error:
            raise ApiError(400, f"unknown image: {error}", code="unknown_image", param="messages") from error

    async def complete(self, request: web.Request) -> web.Response:
        chat = read_request(await _read_json(request))
        text = self.answer(chat)
        knows = chat.logprobs and chat.model == "cheap-judge"
        return _reply(write_reply(chat, text, cheap_judge_logprobs(chat.prompt, text) if knows else None))

    async def list_models(self, _: web.Request) -> web.Response:
        data = [{"id": model, "object": "model", "created": 0, "owned_by": "scene-world"} for model in MODELS]
        return _reply({"object": "list", "data": data})

    async def score(self, request: web.Request) -> web.Response:
        body = await _read_json(request)
        captions = body.get("captions") if isinstance(body, dict) else None
        if not isinstance(captions, list) or not all(isinstance(caption, str) for caption in captions):
            raise ApiError(400, "captions must be a list of strings", param="captions")
        _, scene = self.find(decode_data_url(body.get("image")))
        return _reply({"scores": [score_caption(scene, caption).model_dump() for caption in captions]})

    async def detect(self, request: web.Request) -> web.Response:
        body = await _read_json(request)
        try:
            pixels = read_pixels(decode_data_url(body.get("image") if isinstance(body, dict) else None))
        except (OSError, ValueError, Image.DecompressionBombError) as error:
            raise ApiError(400, "the image is not a readable PNG or JPEG file", param="image") from error
        return _reply({"detections": as_geneval(detect(pixels))})

    async def health(self, _: web.Request) -> web.Response:
        return _reply({"status": "ok", "scenes": len(self.scenes)})


def make_app(scenes: SceneIndex, *, seed: int = 0) -> web.Application:
    """The server's application, to run in any event loop."""
    world = World(scenes, seed)
    app = web.Application(client_max_size=_BODY_LIMIT, middlewares=[_errors_as_json])
    app.router.add_post("/v1/chat/completions", world.complete)
    app.router.add_get("/v1/models", world.list_models)
    app.router.add_post("/oracle/score", world.score)
    app.router.add_post("/pictures/detect", world.detect)
    app.router.add_get("/healthz", world.health)
    return app


def serve(
    folder: Path | str,
    host: str = "127.0.0.1",
    port: int = 0,
    on_ready: Callable[[str], object] = print,
    *,
    seed: int = 0,
) -> None:
    """Serve an exported folder until SIGINT or SIGTERM, then let open requests finish.

    Args:
        port: 0 selects a free one.
        on_ready: called once with the server's URL, when it accepts connections.
    Raises:
        UserError: the folder holds no scenes, or the address cannot be listened on.
    """
    app = make_app(read_scene_index(Path(folder)), seed=seed)
    asyncio.run(_run(app, host, port, on_ready))


async def _run(app: web.Application, host: str, port: int, on_ready: Callable[[str], object]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError, ValueError, RuntimeError):  # not on Windows, nor outside the main thread
            loop.add_signal_handler(signum, stop.set)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=5)
    await runner.setup()
    try:
        try:
            listening = listen(host, port)
        except OSError as error:
            raise UserError(
                f"cannot listen on {host}:{port} ({error.strerror}); choose another --host or --port"
            ) from error
        await web.SockSite(runner, listening).start()
        on_ready(url_of(listening))
        await stop.wait()
    finally:
        await runner.cleanup()


async def _read_json(request: web.Request) -> Any:
    try:
        return json.loads(await request.read())
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"the request body is not valid JSON ({error})") from error


def _reply(body: dict[str, Any], status: int = 200) -> web.Response:
    return web.Response(body=json.dumps(body).encode(), status=status, content_type="application/json")


@web.middleware
async def _errors_as_json(request: web.Request, handler: _Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except ApiError as error:
        return _reply(error.body, error.status)
    except web.HTTPException as error:
        message = f"{error.reason}: {request.method} {request.path}"
        return _reply(ApiError(error.status, message).body, error.status)
    except Exception:
        _log.exception("the world server failed on %s %s", request.method, request.path)
        return _reply(ApiError(500, "the world server failed on this request; its log says why").body, 500)
