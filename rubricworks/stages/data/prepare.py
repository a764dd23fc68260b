"""Build the `samples` table from images: read, check, de-duplicate, split.

A hash of their names decides which images are held out, and which are used at all under `max_train`, so the splits
depend on neither the order nor the machine. The images to hold out and to warm up on are opened first: for one that
cannot be used, the next in the order of the hashes takes its place. A duplicate picture is rejected, so that none is
both trained on and held out. Unusable entries go into the table `rejected` with the reason. Images given by URL are
fetched with their shard, from the hosts that the recipe allows.
"""

import asyncio
import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field, field_validator

from rubricworks.data.downloads.hosts import AllowedHosts
from rubricworks.data.images import BadImage
from rubricworks.data.manifest import Manifest
from rubricworks.data.source_entries import Entries, ImageEntry, RejectedEntry, file_name
from rubricworks.data.sources import SourceItem, image_entries, open_images
from rubricworks.data.tables import build_table
from rubricworks.environment import fill
from rubricworks.errors import UserError
from rubricworks.runtime.call_table import Row
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job
from rubricworks.runtime.preflight_checks import DataSource
from rubricworks.runtime.store.source_files import kind_and_place, local_source
from rubricworks.stages.data.source_splits import check_splits, hash_order, recipe_path
from rubricworks.storage import is_remote, write_atomic
from rubricworks.synthesis.prompts import CAPTION_PROMPT

if TYPE_CHECKING:
    from rubricworks.data.downloads.fetcher import Fetcher

_OPENED_AT_ONCE = 64


class Config(StageConfig):
    source: str
    """A folder of images, a Parquet file or folder, a Hugging Face dataset on disk, or a WebDataset tar; `urls:` and a
    text file with one URL a line. Parquet and datasets may hold URLs, too.
    """
    allowed_hosts: tuple[str, ...] = ()
    """Hosts that images may be fetched from: `images.example.org`, `*.example.org`, `host:8080`. None by default."""
    prompt: str = CAPTION_PROMPT
    """Prompt for every image."""
    own_prompts: bool = False
    """Use the prompt that the source gives with an image, in `prompt` of its metadata line, column or JSON; the images
    without one get `prompt`.
    """
    held_out: int = Field(default=500, ge=1)
    """Samples kept for evaluation."""
    train_only: bool = False
    """Hold nothing out, as to caption images without training; a single image is then enough."""
    warm_up: int = Field(default=0, ge=0)
    """Samples used only for the warm-up, without committee, rubric and RL."""
    max_train: int | None = Field(default=None, ge=1)
    """Number of samples for RL, drawn at random; all remaining ones by default."""
    max_side: int = Field(default=1024, ge=16)
    """Larger images are scaled down to this many pixels on their longer side."""
    shard_size: int = Field(default=256, ge=1)

    @field_validator("allowed_hosts")
    @classmethod
    def _hosts(cls, entries: tuple[str, ...]) -> tuple[str, ...]:
        AllowedHosts(entries)
        return entries

    @property
    def data_source(self) -> DataSource | None:
        """The source for the checks before a run; None if it is empty."""
        return DataSource(kind="images", source=self.source, allowed_hosts=self.allowed_hosts) if self.source else None


def run(config: Config, job: Job, *, fetcher: "Fetcher | None" = None) -> None:
    """Build the tables `samples` and `rejected`; a test may pass a fetcher for its own server."""
    from rubricworks.data.downloads.fetcher import Fetcher

    source = local_source(config.source)
    hosts = AllowedHosts(config.allowed_hosts)

    def entries_of(keys: Collection[str]) -> Entries:
        screened = hosts.screen(image_entries(source), source)
        return (entry for entry in screened if isinstance(entry, RejectedEntry) or entry.key in keys)

    keys, unusable = _usable_keys(config, source, hosts.screen(image_entries(source), source))

    async def build(fetcher: Fetcher) -> Manifest:
        async with fetcher:
            fetched = _FetchedOnce(fetcher, job.scratch("fetched"))
            reserved = await _open_reserved(config, hash_order(keys, config.seed), entries_of, fetched)
            splits = _splits(config, keys, reserved.usable, reserved.unusable)
            owners = {digest: key for key, digest in reserved.usable.items()}
            pictures = _Pictures(_committed_sources(job), owners)

            async def make_rows(entries: list[ImageEntry | RejectedEntry]) -> dict[str, list[Row]]:
                items = await open_images(entries, fetched, max_side=config.max_side)
                return _rows(items, config, source, splits, pictures)

            return await build_table(
                job.out,
                "samples",
                entries_of(splits),
                make_rows,
                made_by=job.made_by,
                shard_size=config.shard_size,
                side_tables={"rejected": job.out / "rejected"},
                progress=job.progress(len(splits) + unusable, "images").at,
            )

    asyncio.run(build(fetcher or Fetcher(hosts)))
    check_splits(job, source, "images", held_out=not config.train_only)


def draw_splits(config: Config, source: str, entries: Entries) -> dict[str, str]:
    """Return key → split of the images to use, as if all can be opened.

    Raises:
        UserError: the source has fewer than two usable images.
    """
    keys, _ = _usable_keys(config, source, entries)
    return _splits(config, keys, hash_order(keys, config.seed)[: _reserved_count(config, keys)], ())


def _usable_keys(config: Config, source: str, entries: Entries) -> tuple[list[str], int]:
    """Return the keys of the images, unopened, and the number of unusable entries.

    Raises:
        UserError: the source has fewer than two usable images.
    """
    keys: list[str] = []
    unusable = 0
    rejection = ""
    for entry in entries:
        if isinstance(entry, ImageEntry):
            keys.append(entry.key)
        else:
            unusable += 1
            rejection = rejection or f" (rejected {entry.source}: {entry.reason})"
    if len(keys) < (1 if config.train_only else 2):
        raise UserError(
            f"{source}: {len(keys)} usable images; at least 2 are needed, one to train on and one held out{rejection}"
        )
    return keys, unusable


def _reserved_count(config: Config, keys: Sequence[str]) -> int:
    """Return the number of images to hold out or to warm up on; one at least remains to train on."""
    return 0 if config.train_only else min(config.held_out + config.warm_up, len(keys) - 1)


class _FetchedOnce:
    """Fetcher that stores images which are opened twice: once for the draw, once for the table."""

    def __init__(self, fetcher: "Fetcher", folder: Path) -> None:
        self.concurrency = fetcher.concurrency
        self.stores = False
        """Store the images that are fetched."""
        self._fetcher, self._folder = fetcher, folder
        self._refused: dict[str, BadImage] = {}

    async def fetch(self, url: str) -> bytes:
        """Fetch as the fetcher does, or read the stored image."""
        file = self._folder / hashlib.sha256(url.encode()).hexdigest()
        if url in self._refused:
            raise self._refused[url]
        if file.is_file():
            return file.read_bytes()
        try:
            content = await self._fetcher.fetch(url)
        except BadImage as error:
            self._refused[url] = error
            raise
        if self.stores:
            write_atomic(file, content)
        return content


class _Reserved(NamedTuple):
    """Images that were opened to be held out or to warm up on."""

    usable: dict[str, str]
    """Key → digest of the picture, in the order of the draw."""
    unusable: list[str]


async def _open_reserved(
    config: Config, shuffled: list[str], entries_of: Callable[[Collection[str]], Entries], fetcher: _FetchedOnce
) -> _Reserved:
    """Open images in the order of the draw until there are enough different ones."""
    wanted, at, fetcher.stores = _reserved_count(config, shuffled), 0, True
    reserved, digests = _Reserved({}, []), set()
    while len(reserved.usable) < wanted and at < len(shuffled) - 1:
        drawn = shuffled[:-1][at : at + wanted - len(reserved.usable)]
        at += len(drawn)
        entries = {entry.key: entry for entry in entries_of(set(drawn)) if isinstance(entry, ImageEntry)}
        for start in range(0, len(drawn), _OPENED_AT_ONCE):
            some = drawn[start : start + _OPENED_AT_ONCE]
            items = await open_images([entries[key] for key in some], fetcher, max_side=config.max_side)
            for key, item in zip(some, items, strict=True):
                if isinstance(item, RejectedEntry) or item.image_digest in digests:
                    reserved.unusable.append(key)
                else:
                    reserved.usable[key] = item.image_digest
                    digests.add(item.image_digest)
    fetcher.stores = False
    return reserved


def _splits(
    config: Config, keys: Sequence[str], reserved: Collection[str], unusable: Collection[str]
) -> dict[str, str]:
    """Return key → split. Images of no use stay among those to train on, where the table of rejected ones gets them."""
    if config.train_only:
        return dict.fromkeys(keys, "train")
    held_out, warm_up = list(reserved)[: config.held_out], list(reserved)[config.held_out :]
    opened = {*reserved, *unusable}
    rest = [key for key in hash_order(keys, config.seed) if key not in opened][: config.max_train]
    return (
        dict.fromkeys(held_out, "held_out")
        | dict.fromkeys(warm_up, "warm_up")
        | dict.fromkeys((*unusable, *rest), "train")
    )


def captioned_images(config: Config) -> int | None:
    """Count the images to train on that have a caption, without opening or fetching them; None for those of a store.

    Raises:
        UserError: the source cannot be read, or has fewer than two usable images.
    """
    source = fill(config.source, "data.source")
    if is_remote(kind_and_place(source)[1]):
        return None
    entries = list(AllowedHosts(config.allowed_hosts).screen(image_entries(source), source))
    splits = draw_splits(config, source, iter(entries))
    return sum(
        bool(entry.references) and splits.get(entry.key) in ("warm_up", "train")
        for entry in entries
        if isinstance(entry, ImageEntry)
    )


def _committed_sources(job: Job) -> dict[str, str]:
    """Return picture digest → source in the shards that an earlier attempt committed."""
    import pyarrow.parquet as pq

    return {
        row["image_digest"]: row["source"]
        for shard in sorted(job.out.glob("samples/part-*.parquet"))
        for row in pq.read_table(shard, columns=["image_digest", "source"]).to_pylist()
    }


@dataclass
class _Pictures:
    """Pictures of the table so far, of which each is taken once."""

    sources: dict[str, str]
    """Digest → source of those that have a row."""
    reserved: dict[str, str]
    """Digest → key of those that are held out or warmed up on, whichever row comes first."""

    def twin(self, item: SourceItem) -> str:
        """Name of the file with the same image that is used instead; empty if there is none."""
        if (source := self.sources.get(item.image_digest)) is not None:
            return file_name(source)
        key = self.reserved.get(item.image_digest, item.key)
        return file_name(key) if key != item.key else ""


def _rows(
    items: list[SourceItem | RejectedEntry], config: Config, source: str, splits: dict[str, str], pictures: _Pictures
) -> dict[str, list[Row]]:
    """Return rows of `samples` and `rejected`; adds the pictures of the samples to `pictures`."""
    samples: list[Row] = []
    rejected: list[Row] = []
    for item in items:
        place = recipe_path(item.source, config.source, source)
        if isinstance(item, SourceItem) and (twin := pictures.twin(item)):
            item = RejectedEntry(source=item.source, reason=f"the same picture as {twin}")
        if isinstance(item, RejectedEntry):
            rejected.append({"source": place, "reason": item.reason})
            continue
        pictures.sources[item.image_digest] = place
        prompt = image_prompt(config, item)
        samples.append({**_sample(item, prompt, splits[item.key]), "source": place})
    return {"samples": samples, "rejected": rejected}


def _sample(item: SourceItem, prompt: str, split: str) -> Row:
    return {
        "sample_id": image_sample_id(item.image_digest),
        "split": split,
        "image": item.image,
        "image_digest": item.image_digest,
        "prompt": prompt,
        "references": list(item.references),
    }


def image_prompt(config: Config, item: SourceItem) -> str:
    """Prompt of an image: its own where the source gives one and `own_prompts` takes it, else the common one."""
    return (item.prompt if config.own_prompts else "") or config.prompt


def image_sample_id(image_digest: str) -> str:
    """Return the sample id of a picture, whatever its prompt and wherever its file; a source has each picture once."""
    return hashlib.sha256(image_digest.encode()).hexdigest()[:16]
