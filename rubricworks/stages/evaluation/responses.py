"""Responses of every model under evaluation to the held-out samples, as the table `responses`.

Models respond one after the other, so that one is in memory at a time; endpoints are asked concurrently. A response
that an endpoint did not give is a dead letter.
"""

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rubricworks.data.response_images import IMAGES, ResponseImages, response_columns
from rubricworks.data.rows import iter_rows
from rubricworks.data.source_entries import file_name
from rubricworks.data.tables import Sample, build_table, read_rubrics
from rubricworks.errors import UserError
from rubricworks.evaluation.models import EvaluatedModel
from rubricworks.evaluation.prompt_rewriting import rewrite_prompt
from rubricworks.evaluation.scorers.rubric_reward import best_of
from rubricworks.evaluation.scorers.scorer import ScoringContext
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient, ChatError, Endpoint, image_part, text_part
from rubricworks.llm.answers import split_thought
from rubricworks.llm.messages import user_message
from rubricworks.rubrics import Response, Rubric
from rubricworks.runtime.call_table import Row, dead_letter
from rubricworks.runtime.job import Job
from rubricworks.stages.evaluation.score_config import BEST_OF_N, Evaluation, ImageEvaluation, TextEvaluation
from rubricworks.storage import write_atomic

if TYPE_CHECKING:
    from rubricworks.training.engine import Engine
    from rubricworks.training.generators.image_generators import ImageGenerator

RESPONSES = "responses"
"""Folder and name of the table."""
REWRITTEN = "rewritten_prompts.json"
"""Original prompt → rewritten prompt that images were generated for, if there is a rewriter."""


class Batch(NamedTuple):
    """Samples for one model to respond to; a shard of the tables of responses and scores."""

    model: EvaluatedModel
    part: int
    """Number of the batch among the model's own: the samples of a part are the same for every model."""
    samples: list[Sample]
    questions: list[Sample]
    """Visual questions about the same pictures, which are answered and not scored as responses."""


class _Given(NamedTuple):
    response: Response
    tokens: int | None


def write_responses(
    config: Evaluation, job: Job, batches: Callable[[], Iterator[Batch]], total: int, **made_by: Any
) -> None:
    """Write the table `responses`, one shard per batch, with dead letters in `responses/dead_letters`."""
    out = job.out / RESPONSES
    asyncio.run(_write(job, out, batches(), total, _Responder(config, job), {**job.made_by, **made_by}))


async def _write(
    job: Job, out: Path, batches: Iterator[Batch], total: int, responder: "_Responder", made_by: dict[str, object]
) -> None:
    images = ResponseImages(out / IMAGES)

    async def make_rows(chunk: list[Batch]) -> dict[str, list[Row]]:
        rows: dict[str, list[Row]] = {RESPONSES: [], "dead_letters": []}
        for batch in chunk:
            samples = [*batch.samples, *batch.questions]
            for sample, given in zip(samples, await responder.respond(batch.model, samples), strict=True):
                if isinstance(given, ChatError):
                    purpose = f"response by {batch.model.name}"
                    rows["dead_letters"].append(dead_letter(sample.sample_id, job, purpose, given))
                elif given is not None:
                    images.add(given.response)
                    rows[RESPONSES].append(_row(sample, batch.model, given))
        return rows

    async with responder:
        await build_table(
            out,
            RESPONSES,
            batches,
            make_rows,
            made_by=made_by,
            shard_size=1,
            side_tables={"dead_letters": out / "dead_letters"},
            progress=job.progress(total, "batches of responses").at,
        )


def _row(sample: Sample, model: EvaluatedModel, given: _Given) -> Row:
    return {
        "sample_id": sample.sample_id,
        **model.columns(),
        **response_columns(given.response),
        "tokens": given.tokens,
    }


class _Responder:
    """Responses of models of every kind."""

    def __init__(self, config: Evaluation, job: Job) -> None:
        self.config, self.job = config, job
        self._stack = AsyncExitStack()
        self._engine: Engine | None = None
        self._loaded = ""
        self._generators: dict[str, ImageGenerator] = {}
        self._clients: dict[str, ChatClient] = {}
        self._rewriter: ChatClient | None = None
        self._grader: Grader | None = None
        self._rubrics: dict[str, Rubric] = {}
        self._files: dict[tuple[str, str | None, str], dict[str, _Given]] = {}

    async def __aenter__(self) -> "_Responder":
        return self

    async def __aexit__(self, *_: object) -> None:
        self._unload()
        await self._stack.aclose()

    def _unload(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None
        if self._generators:
            from accelerate.utils.memory import clear_device_cache

            self._generators.clear()
            clear_device_cache(garbage_collection=True)

    async def respond(self, model: EvaluatedModel, samples: list[Sample]) -> list[_Given | ChatError | None]:
        """One entry per sample: the response, the reason for its absence, or None if a file has none."""
        source = model.source
        if source.folder is not None:
            return await self._respond_here(source.folder, model, samples)
        if source.endpoint is not None:
            return await self._ask(model, samples)
        responses = self._read(str(source.responses), source.model, model.decoding)
        return [response_to(responses, sample.sample_id, sample.source) for sample in samples]

    async def _respond_here(
        self, folder: str, model: EvaluatedModel, samples: list[Sample]
    ) -> list[_Given | ChatError | None]:
        from rubricworks.training.generators.image_generators import is_image_generator

        config = self.config
        if is_image_generator(Path(folder)) != isinstance(config, ImageEvaluation):
            does = "writes text" if isinstance(config, ImageEvaluation) else "generates images"
            raise UserError(
                f"{folder} {does}, and the scorers are of other responses; change evaluation.type and scorers"
            )
        if isinstance(config, TextEvaluation):
            return list(self._write(config, folder, model, samples))
        assert isinstance(config, ImageEvaluation)
        if config.rewriter is None:
            return await self._drawn(config, folder, model, samples, samples)
        prompts = await self._rewrite(config.rewriter, samples)
        written = [(sample, prompt) for sample, prompt in zip(samples, prompts, strict=True) if isinstance(prompt, str)]
        asked = [sample.model_copy(update={"prompt": prompt}) for sample, prompt in written]
        drawn = iter(await self._drawn(config, folder, model, [sample for sample, _ in written], asked))
        return [next(drawn) if isinstance(prompt, str) else prompt for prompt in prompts]

    async def _drawn(
        self, config: ImageEvaluation, folder: str, model: EvaluatedModel, samples: list[Sample], asked: list[Sample]
    ) -> list[_Given | ChatError | None]:
        """Images for the prompts; with best-of-N, the best image of each sample."""
        chooser = config.best_of
        if model.name != BEST_OF_N or chooser is None:
            return list(self._draw(config, folder, model, asked))
        drawn = self._draw(config, folder, model, [sample for sample in asked for _ in range(chooser.draws)])
        if self._grader is None:
            letters = ScoringContext(self._stack, self.job.client, self.job.calls.gather_all, lambda call: None)
            self._grader = await chooser.open_grader(letters)
            self._rubrics = read_rubrics(self.job.inputs["rubrics"]) if "rubrics" in self.job.inputs else {}
        rewards = await self.job.calls.gather_all(
            chooser.reward(self._grader, sample, image.response, self._rubrics.get(sample.sample_id))
            for sample, image in zip((sample for sample in samples for _ in range(chooser.draws)), drawn, strict=True)
        )
        best = best_of([sample.prompt for sample in samples], rewards, chooser.draws)
        return [drawn[number] if isinstance(number, int) else number for number in best]

    async def _rewrite(self, rewriter: Endpoint, samples: list[Sample]) -> list[str | ChatError]:
        """Rewritten prompt of each sample or the reason for its absence, stored in a file."""
        if self._rewriter is None:
            self._rewriter = await self._stack.enter_async_context(self.job.client(rewriter, "rewriting"))
        client, file = self._rewriter, self.job.out / REWRITTEN
        written: dict[str, str] = json.loads(file.read_bytes()) if file.is_file() else {}

        async def rewrite(prompt: str) -> str | ChatError:
            try:
                return await rewrite_prompt(client, prompt, seed=self.config.seed)
            except ChatError as error:
                return error

        new = list(dict.fromkeys(sample.prompt for sample in samples if sample.prompt not in written))
        answers = dict(zip(new, await self.job.calls.gather_all(map(rewrite, new)), strict=True))
        written |= {prompt: answer for prompt, answer in answers.items() if isinstance(answer, str)}
        write_atomic(file, json.dumps(dict(sorted(written.items())), ensure_ascii=False, indent=1).encode())
        return [written.get(sample.prompt) or answers[sample.prompt] for sample in samples]

    def _write(self, config: TextEvaluation, folder: str, model: EvaluatedModel, samples: list[Sample]) -> list[_Given]:
        from rubricworks.training.engine import load_engine

        if self._engine is None:
            self._engine = load_engine(folder, config.engine, batch_size=config.batch_size)
        elif folder != self._loaded:
            self._engine.load(folder)
        self._loaded = folder
        if not samples:
            return []
        texts = self._engine(
            [sample.image or None for sample in samples],
            [sample.prompt for sample in samples],
            max_new_tokens=config.max_new_tokens,
            temperature=config.temperature if model.decoding == "sampled" else 0.0,
            seed=config.seed,
        )
        return [_Given(Response(split_thought(text).answer), tokens) for text, tokens in texts]

    def _draw(self, config: ImageEvaluation, folder: str, model: EvaluatedModel, samples: list[Sample]) -> list[_Given]:
        """Images of a generator; their seed depends on the samples, so that a prompt that comes twice differs."""
        from rubricworks.training.generators.image_generators import load_image_generator
        from rubricworks.training.generators.policy import image_responses

        if folder not in self._generators:
            self._unload()  # one at a time in memory
            self._generators[folder] = load_image_generator(Path(folder), config.sampling, dtype=config.precision)
        first = samples[0].sample_id if samples else ""
        images = self._generators[folder].generate(
            [sample.prompt for sample in samples],
            temperature=config.temperature if model.decoding == "sampled" else 0.0,
            guidance=config.guidance,
            seed=int(hashlib.sha256(f"{config.seed} {first}".encode()).hexdigest()[:12], 16),
            batch_size=config.batch_size,
        )
        return [_Given(response, None) for response in image_responses(images)]

    async def _ask(self, model: EvaluatedModel, samples: list[Sample]) -> list[_Given | ChatError | None]:
        endpoint = model.source.endpoint
        assert endpoint is not None
        if model.name not in self._clients:
            client = self.job.client(endpoint, "response")
            self._clients[model.name] = await self._stack.enter_async_context(client)
        client = self._clients[model.name]

        async def ask(sample: Sample) -> _Given | ChatError | None:
            image = [image_part(sample.image)] if sample.image else []
            try:
                reply = await client.chat([user_message([*image, text_part(sample.prompt)])], seed=self.config.seed)
            except ChatError as error:
                return error
            return _Given(Response(reply.value.strip()), reply.usage.completion_tokens)

        return await self.job.calls.gather_all(map(ask, samples))

    def _read(self, path: str, model: str | None, decoding: str) -> dict[str, _Given]:
        key = (path, model, decoding)
        if key not in self._files:
            self._files[key] = read_responses(path, model, decoding)
        return self._files[key]


def read_responses(path: str, model: str | None = None, decoding: str | None = None) -> dict[str, _Given]:
    """Read sample id or file name → response from JSON lines, Parquet or a `responses` table.

    A row that has a sample id and a place is also found by its file name, unless two rows share that name.

    Args: model, decoding: rows to read from a table with several models or decodings. Raises: UserError: the file is
        missing or damaged, has no column of names or of texts, or a sample twice.
    """
    responses: dict[str, _Given] = {}
    file_names: dict[str, list[_Given]] = {}
    for number, row in enumerate(iter_rows(path, [], optional=_COLUMNS)):
        if model is not None and (row.get("model"), row.get("decoding", decoding)) != (model, decoding):
            continue
        name = next((row[column] for column in _NAMES if row.get(column) is not None), None)
        text = next((row[column] for column in _TEXTS if row.get(column) is not None), None)
        if not isinstance(name, str) or not isinstance(text, str):
            raise UserError(f"{path}: row {number}: give {' or '.join(_NAMES)}, and {' or '.join(_TEXTS)}, each a text")
        name = name if "sample_id" in row else Path(name).name
        if name in responses:
            raise UserError(f"{path}: two responses to {name}; keep one, or choose one of several models")
        responses[name] = given = _Given(Response(text), row.get("tokens"))
        if isinstance(source := row.get("source"), str):
            file_names.setdefault(file_name(source), []).append(given)
    if not responses:
        raise UserError(f"{path}: no responses" + (f" of {model}, {decoding}" if model else ""))
    return {name: named[0] for name, named in file_names.items() if len(named) == 1} | responses


def response_to(responses: dict[str, _Given], sample_id: str, source: str) -> _Given | None:
    """Response to a sample, by its id or else by the name of its file."""
    return responses.get(sample_id) or responses.get(file_name(source))


_NAMES, _TEXTS = ("sample_id", "file_name"), ("response", "caption", "text")
_COLUMNS = (*_NAMES, *_TEXTS, "source", "model", "decoding", "tokens")
