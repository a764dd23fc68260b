"""Recaption a source of any size: one image in, one caption out, by endpoints, vLLM's offline engine or Transformers.

The source is divided into units (tars, row groups, slices of a folder), and every captioner's captions of a unit are
one shard of the table, so a killed stage goes on at its last unit, and parts of an Indexed Job take a range of units
each. Images are streamed and not stored: `sample_id` is the image's key in its source. An image that cannot be used is
a row of `rejected`; one that a captioner gave no answer for is a dead letter.
"""

import time
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rubricworks.data.downloads.hosts import AllowedHosts
from rubricworks.data.images import BadImage
from rubricworks.data.manifest import read_manifest
from rubricworks.data.source_entries import Entries, ImageEntry, RejectedEntry
from rubricworks.data.source_units import SourceUnit, source_units, stored_units
from rubricworks.data.sources import image_bytes
from rubricworks.data.tables import count_rows, read_shard
from rubricworks.environment import fill
from rubricworks.errors import UserError
from rubricworks.llm import ChatClient, ChatError, ImageEndpoint, image_part, text_part
from rubricworks.llm.answers import is_blank, split_thought
from rubricworks.llm.messages import user_message
from rubricworks.rubrics import ErrorClass
from rubricworks.runtime.call_table import Answers, Row, ask_all, caption_row, dead_letter
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job
from rubricworks.runtime.progress import call_figures
from rubricworks.runtime.store.source_files import kind_and_place, local_source, stored_files
from rubricworks.stages.evaluation.responses import read_responses
from rubricworks.storage import files_digest, is_remote, local_path
from rubricworks.synthesis.prompts import CAPTION_PROMPT, CAPTION_PROMPT_VERSION
from rubricworks.terminal import say
from rubricworks.training.config import EngineOptions
from rubricworks.training.model_card import read_usage

if TYPE_CHECKING:
    from rubricworks.data.downloads.fetcher import Fetcher
    from rubricworks.training.engine import Engine

_REPORT_EVERY_S = 5.0
_RESPONSES = "recaption.captioners.responses"
_BATCHED = 2_000
"""Images that one batch of the Batch API holds at most; they are in memory until it is sent."""


class Captioner(BaseModel):
    """A model that writes captions, behind an endpoint or loaded here; or a file of captions that there are already."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: str = ""
    """Name in the table, by default the model's."""
    endpoint: ImageEndpoint | None = None
    """Endpoint that captions; without one, `model` captions here."""
    model: str | None = Field(default=None, min_length=1)
    """A model directory, or a name on the Hugging Face Hub, with its commit: org/name@COMMIT."""
    responses: str | None = Field(default=None, min_length=1)
    """Captions of another model, as JSON lines or Parquet with `sample_id` or `file_name`, and `caption`."""
    engine: EngineOptions = EngineOptions()
    """Engine of a `model`: `{kind: vllm}` on GPUs."""
    max_new_tokens: int = Field(default=1024, ge=1)
    """Maximum caption length of a `model`; endpoints use their `max_tokens`."""
    temperature: float = Field(default=0.0, ge=0)
    """Sampling temperature of a `model`; 0 is greedy."""
    batch_size: int = Field(default=256, ge=1)
    """Images that a `model` is given at once."""

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if sum(source is not None for source in (self.endpoint, self.model, self.responses)) != 1:
            raise ValueError("give a captioner one of endpoint, model and responses")
        return self

    @property
    def label(self) -> str:
        return self.name or (self.endpoint.model if self.endpoint else Path(self.model or str(self.responses)).name)


class Config(StageConfig):
    sources: tuple[str, ...] = ()
    """Folders of images, Parquet, Hugging Face datasets on disk, WebDataset tars; none where the stage gets samples."""
    allowed_hosts: tuple[str, ...] = ()
    """Hosts that images may be fetched from, where a source holds URLs."""
    captioners: tuple[Captioner, ...] = Field(min_length=1)
    """Captioners, each with its share of the images."""
    prompt: str | None = Field(default=None, min_length=1)
    """Request to all captioners. Default: the prompt that the first captioner trained here was trained on, by its model
    card; without one that of the samples, or one for detail.
    """
    own_prompts: bool = False
    """Use the prompt that a source has for an image, if any."""
    splits: tuple[str, ...] = ()
    """Splits of the samples to caption; all by default."""
    max_side: int = Field(default=1024, ge=16)
    """Larger images are scaled down to this many pixels on their longer side."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        labels = [captioner.label for captioner in self.captioners]
        if repeated := next((label for label in labels if labels.count(label) > 1), None):
            raise ValueError(f"two captioners are called {repeated}; give them names")
        AllowedHosts(self.allowed_hosts)
        return self

    def versions(self) -> dict[str, str]:
        """Digest of each model directory and each file of captions, which may change in their places."""
        from rubricworks.training.checkpoints import model_digest

        folders = {
            captioner.label: Path(fill(captioner.model, "captioner.model"))
            for captioner in self.captioners
            if captioner.model
        }
        files = {
            captioner.label: local_path(fill(captioner.responses, _RESPONSES))
            for captioner in self.captioners
            if captioner.responses
        }
        digests = {name: model_digest(folder) for name, folder in folders.items() if folder.is_dir()}
        return digests | {name: files_digest([file], file.parent) for name, file in files.items() if file.is_file()}


class _Item(NamedTuple):
    """One shard of the table: a unit by one captioner."""

    captioner: Captioner
    unit: SourceUnit
    first: bool
    """The first captioner's: it reports what is rejected."""


def run(config: Config, job: Job, *, fetcher: "Fetcher | None" = None) -> None:
    """Build the tables `captions` and `rejected`; a test may pass a fetcher for its own server."""
    units = _units(config, job)
    clients = {
        captioner.label: job.client(captioner.endpoint, "recaption")
        for captioner in config.captioners
        if captioner.endpoint
    }
    live = _LiveRate(list(clients.values()))
    captions = _Captions(config, job, clients, live, fetcher)
    items = [_Item(captioner, unit, not number) for number, captioner in enumerate(config.captioners) for unit in units]
    try:
        ask_all(
            job,
            "captions",
            items,
            captions.of_unit,
            total=len(items),
            shard_size=1,
            clients=clients.values(),
            side_tables=["rejected"],
            unit="units",
        )
    finally:
        captions.unload()
    job.figures.update(
        rejected=count_rows(job.out / "rejected"), images_per_second=round(live.rate, 3), images=live.images
    )


def _units(config: Config, job: Job) -> list[SourceUnit]:
    """Units of the samples, or of the sources; the keys of a second source begin with its number."""
    if "samples" in job.inputs:
        return _sample_units(job.inputs["samples"], config.splits)
    if not config.sources:
        raise UserError("recaption: there are no images; give sources")
    units = []
    for number, source in enumerate(config.sources):
        units += [_numbered(unit, number) for unit in _units_of_source(fill(source, "recaption.sources"))]
    return units


def _units_of_source(source: str) -> list[SourceUnit]:
    kind, place = kind_and_place(source)
    if is_remote(place) and kind in ("", "parquet:", "webdataset:"):
        bucket, files = stored_files(place)
        prefix = place.rstrip("/").rpartition("/")[2]
        units = stored_units(place, bucket, [item for path, item in files.items() if path.startswith(f"{prefix}/")])
        if units:
            return units
    return source_units(local_source(source))


def _numbered(unit: SourceUnit, number: int) -> SourceUnit:
    if not number:
        return unit

    def read() -> Entries:
        for entry in unit.read():
            if isinstance(entry, ImageEntry):
                key = f"{number}:{entry.key}"
                entry = ImageEntry(key, entry.source, entry.read, entry.references, entry.prompt, entry.url)
            yield entry

    return SourceUnit(f"{number}:{unit.name}", unit.place, read)


def _sample_units(samples: Path, splits: tuple[str, ...]) -> list[SourceUnit]:
    def read(number: int) -> Entries:
        for row in read_shard(samples, number):
            if row["image"] and (not splits or row["split"] in splits):
                yield ImageEntry(row["sample_id"], row["source"], partial(bytes, row["image"]), (), row["prompt"])

    shards = read_manifest(samples).shards
    return [SourceUnit(shard.name, str(samples), partial(read, number)) for number, shard in enumerate(shards)]


def _trained_prompt(captioners: tuple[Captioner, ...]) -> str | None:
    """Prompt of the first captioner whose model card states the one of its training."""
    folders = (Path(fill(captioner.model, "captioner.model")) for captioner in captioners if captioner.model)
    return next((prompt for folder in folders if (prompt := read_usage(folder).prompt)), None)


class _Captions:
    """Captions of units; one model is in memory at a time."""

    def __init__(
        self,
        config: Config,
        job: Job,
        clients: dict[str, ChatClient],
        live: "_LiveRate",
        fetcher: "Fetcher | None",
    ) -> None:
        self._config, self._job, self._clients, self._live, self._fetcher = config, job, clients, live, fetcher
        self._hosts = AllowedHosts(config.allowed_hosts)
        self._loaded: tuple[str, Engine] | None = None
        self._given: dict[str, dict[str, str]] = {}
        self._prompt_for_all = config.prompt or _trained_prompt(config.captioners)
        self._own_prompts = config.own_prompts or (self._prompt_for_all is None and "samples" in job.inputs)

    async def of_unit(self, item: _Item) -> Answers:
        from rubricworks.data.downloads.fetcher import Fetcher

        async with self._fetcher or Fetcher(self._hosts) as fetcher:
            if item.captioner.endpoint:
                rows = await self._ask(item, fetcher)
            elif item.captioner.responses:
                rows = await self._look_up(item, fetcher)
            else:
                rows = await self._generate(item, fetcher)
        captions = [row for row in rows if "caption" in row]
        letters = [row for row in rows if "attempts" in row]
        rejected = [row for row in rows if "sample_id" not in row]
        return Answers(captions, letters, {"rejected": rejected if item.first else []})

    def unload(self) -> None:
        if self._loaded:
            self._loaded[1].close()
            self._loaded = None

    def _entries(self, unit: SourceUnit) -> Entries:
        return self._hosts.screen(unit.entries(), unit.place)

    def _prompt(self, entry: ImageEntry) -> str:
        return (entry.prompt if self._own_prompts else "") or self._prompt_for_all or CAPTION_PROMPT

    async def _image(self, entry: ImageEntry | RejectedEntry, fetcher: "Fetcher") -> bytes | RejectedEntry:
        if isinstance(entry, RejectedEntry):
            return entry
        if entry.url is not None:
            try:
                content = await fetcher.fetch(entry.url)
            except BadImage as error:
                return RejectedEntry(source=entry.source, reason=str(error))
            entry = ImageEntry(entry.key, entry.source, partial(bytes, content))
        return image_bytes(entry, max_side=self._config.max_side)

    async def _ask(self, item: _Item, fetcher: "Fetcher") -> list[Row]:
        client = self._clients[item.captioner.label]

        async def caption(entry: ImageEntry | RejectedEntry) -> Row:
            image = await self._image(entry, fetcher)
            if isinstance(image, RejectedEntry):
                self._live.add(rejected=1)
                return image.model_dump()
            assert isinstance(entry, ImageEntry), "the image of a rejected entry is the rejection"
            request = [user_message([image_part(image), text_part(self._prompt(entry))])]
            try:
                reply = await client.chat(request, seed=self._config.seed)
            except ChatError as error:
                self._live.add(failed=1)
                return dead_letter(entry.key, self._job, f"recaption by {client.endpoint.model}", error)
            self._live.add()
            row = caption_row(entry.key, client, self._config.seed, reply)
            return {**row, "captioner": item.captioner.label}

        calls: Iterator[Coroutine[Any, Any, Row]] = map(caption, self._entries(item.unit))
        at_once = _BATCHED if client.endpoint.batch else 2 * client.endpoint.concurrency
        return await self._job.calls.gather_stream(calls, at_once)

    async def _generate(self, item: _Item, fetcher: "Fetcher") -> list[Row]:
        captioner, rows = item.captioner, list[Row]()
        entries = self._entries(item.unit)
        while chunk := list(islice(entries, captioner.batch_size)):
            images = [(entry, await self._image(entry, fetcher)) for entry in chunk]
            usable = [
                (entry, image) for entry, image in images if isinstance(entry, ImageEntry) and isinstance(image, bytes)
            ]
            texts = iter(
                self._engine(captioner)(
                    [image for _, image in usable],
                    [self._prompt(entry) for entry, _ in usable],
                    max_new_tokens=captioner.max_new_tokens,
                    temperature=captioner.temperature,
                    seed=self._config.seed,
                )
                if usable
                else ()
            )
            for entry, image in images:
                if isinstance(image, RejectedEntry):
                    self._live.add(rejected=1)
                    rows.append(image.model_dump())
                elif isinstance(entry, ImageEntry):
                    text, tokens = next(texts)
                    caption = split_thought(text).answer
                    self._live.add(failed=int(is_blank(caption)))
                    if is_blank(caption):
                        error = ChatError(ErrorClass.MALFORMED, f"{captioner.label}: the caption is empty", text)
                        rows.append(dead_letter(entry.key, self._job, f"recaption by {captioner.label}", error))
                    else:
                        rows.append(self._row(entry.key, captioner, caption, tokens))
        return rows

    async def _look_up(self, item: _Item, fetcher: "Fetcher") -> list[Row]:
        """Rows of a file's captions; an image that the file has none of is a dead letter.

        Raises:
            UserError: the file is damaged, or has a caption of no image of the unit.
        """
        captioner, rows = item.captioner, list[Row]()
        path = fill(str(captioner.responses), _RESPONSES)
        if captioner.label not in self._given:
            read = read_responses(path)
            self._given[captioner.label] = {name: given.response.text or "" for name, given in read.items()}
        given = self._given[captioner.label]
        for entry in self._entries(item.unit):
            image = await self._image(entry, fetcher)
            if isinstance(image, RejectedEntry):
                self._live.add(rejected=1)
                rows.append(image.model_dump())
            elif isinstance(entry, ImageEntry):
                caption = given.get(entry.key) or given.get(Path(entry.source).name) or given.get(Path(entry.key).name)
                self._live.add(failed=int(is_blank(caption or "")))
                if caption and not is_blank(caption):
                    rows.append(self._row(entry.key, captioner, caption, 0))
                else:
                    error = ChatError(ErrorClass.MALFORMED, f"{path} has no caption of it", attempts=0)
                    rows.append(dead_letter(entry.key, self._job, f"recaption by {captioner.label}", error))
        if rows and not any("caption" in row for row in rows) and any("attempts" in row for row in rows):
            raise UserError(f"{path}: no caption of the images of {item.unit.name}; they are known by their file names")
        return rows

    def _engine(self, captioner: Captioner) -> "Engine":
        from rubricworks.training.engine import load_engine

        if self._loaded is None or self._loaded[0] != captioner.label:
            self.unload()
            model = fill(str(captioner.model), "captioner.model")
            self._loaded = captioner.label, load_engine(model, captioner.engine, batch_size=captioner.batch_size)
        return self._loaded[1]

    def _row(self, key: str, captioner: Captioner, text: str, tokens: int) -> Row:
        versions: dict[str, str] = self._job.made_by.get("versions", {})
        return {
            "sample_id": key,
            "captioner": captioner.label,
            "model": Path(captioner.model or str(captioner.responses)).name,
            "revision": versions.get(captioner.label, ""),
            "prompt_version": CAPTION_PROMPT_VERSION,
            "endpoint": "",
            "seed": self._config.seed,
            "caption": text.strip(),
            "prompt_tokens": 0,
            "completion_tokens": tokens,
            "cost": 0.0,
        }


class _LiveRate:
    """Images of this process so far, printed now and then: rate, rejections, tokens, dollars."""

    def __init__(self, clients: list[ChatClient], clock: Callable[[], float] = time.monotonic) -> None:
        self._clients, self._clock = clients, clock
        self._started = self._printed = clock()
        self.images = self.rejected = self.failed = 0

    @property
    def rate(self) -> float:
        """Captions a second."""
        return self.images / max(self._clock() - self._started, 1e-3)

    def add(self, *, rejected: int = 0, failed: int = 0) -> None:
        self.rejected += rejected
        self.failed += failed
        self.images += not rejected and not failed
        if self._clock() - self._printed >= _REPORT_EVERY_S:
            self._printed = self._clock()
            say(self.line())

    def line(self) -> str:
        parts = [f"{self.images:,} images", f"{self.rate:,.1f}/s"]
        parts += [f"{self.rejected:,} rejected"] if self.rejected else []
        return "  ".join([*parts, *call_figures(self._clients)])
