"""Build the `samples` table from images: read, check, de-duplicate, split.

A hash of their names decides which images are held out, and which are used at all under `max_train`, so the splits
depend on neither the order nor the machine. A duplicate picture is rejected, so that none is both trained on and held
out. Unusable entries go into the table `rejected` with the reason. Images given by URL are fetched with their shard,
from the hosts that the recipe allows.
"""

import asyncio
import hashlib
from typing import TYPE_CHECKING

from pydantic import Field, field_validator

from rubricworks.data.downloads.hosts import AllowedHosts
from rubricworks.data.manifest import Manifest
from rubricworks.data.source_entries import Entries, ImageEntry, RejectedEntry
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
from rubricworks.storage import is_remote
from rubricworks.synthesis.prompts import CAPTION_PROMPT

if TYPE_CHECKING:
    from rubricworks.data.downloads.fetcher import Fetcher


class Config(StageConfig):
    source: str
    """A folder of images, a Parquet file or folder, a Hugging Face dataset on disk, or a WebDataset tar; `urls:` and a
    text file with one URL a line. Parquet and datasets may hold URLs, too."""
    allowed_hosts: tuple[str, ...] = ()
    """Hosts that images may be fetched from: `images.example.org`, `*.example.org`, `host:8080`. None by default."""
    prompt: str = CAPTION_PROMPT
    """Prompt for every image."""
    own_prompts: bool = False
    """Use the prompt that the source gives with an image, in `prompt` of its metadata line, column or JSON; the images
    without one get `prompt`."""
    held_out: int = Field(default=500, ge=1)
    """Samples kept for evaluation."""
    train_only: bool = False
    """Hold nothing out, as to caption images without training; a single image is then enough."""
    warm_up: int = Field(default=0, ge=0)
    """Samples used for the warm-up alone: no committee, no rubric, no RL."""
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
    splits, unusable = draw_splits(config, source, hosts.screen(image_entries(source), source))
    digests = _committed_digests(job)

    def selected_entries() -> Entries:
        screened = hosts.screen(image_entries(source), source)
        return (entry for entry in screened if isinstance(entry, RejectedEntry) or entry.key in splits)

    async def build(fetcher: Fetcher) -> Manifest:
        async def make_rows(entries: list[ImageEntry | RejectedEntry]) -> dict[str, list[Row]]:
            items = await open_images(entries, fetcher, max_side=config.max_side)
            return _rows(items, config, source, splits, digests)

        async with fetcher:
            return await build_table(
                job.out,
                "samples",
                selected_entries(),
                make_rows,
                made_by=job.made_by,
                shard_size=config.shard_size,
                side_tables={"rejected": job.out / "rejected"},
                progress=job.progress(len(splits) + unusable, "images").at,
            )

    asyncio.run(build(fetcher or Fetcher(hosts)))
    check_splits(job, source, "images", held_out=not config.train_only)


def draw_splits(config: Config, source: str, entries: Entries) -> tuple[dict[str, str], int]:
    """Return key → split of the images to use, and the number of unusable entries.

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
    if config.train_only and keys:
        return dict.fromkeys(keys, "train"), unusable
    if len(keys) < 2:
        raise UserError(
            f"{source}: {len(keys)} usable images; at least 2 are needed, one to train on and one held out{rejection}"
        )
    shuffled = hash_order(keys, config.seed)
    held_out = min(config.held_out, len(keys) - 1)
    warm_up = min(config.warm_up, len(keys) - 1 - held_out)
    rest = shuffled[held_out + warm_up :][: config.max_train]
    splits = (
        dict.fromkeys(shuffled[:held_out], "held_out")
        | dict.fromkeys(shuffled[held_out : held_out + warm_up], "warm_up")
        | dict.fromkeys(rest, "train")
    )
    return splits, unusable


def captioned_images(config: Config) -> int | None:
    """Count the images to train on that have a caption, without opening or fetching them; None for those of a store.

    Raises:
        UserError: the source cannot be read, or has fewer than two usable images.
    """
    source = fill(config.source, "data.source")
    if is_remote(kind_and_place(source)[1]):
        return None
    entries = list(AllowedHosts(config.allowed_hosts).screen(image_entries(source), source))
    splits, _ = draw_splits(config, source, iter(entries))
    return sum(
        bool(entry.references) and splits.get(entry.key) in ("warm_up", "train")
        for entry in entries
        if isinstance(entry, ImageEntry)
    )


def _committed_digests(job: Job) -> set[str]:
    """Return the picture digests in the shards that an earlier attempt committed."""
    import pyarrow.parquet as pq

    return {
        digest
        for shard in sorted(job.out.glob("samples/part-*.parquet"))
        for digest in pq.read_table(shard, columns=["image_digest"])["image_digest"].to_pylist()
    }


def _rows(
    items: list[SourceItem | RejectedEntry], config: Config, source: str, splits: dict[str, str], digests: set[str]
) -> dict[str, list[Row]]:
    """Return rows of `samples` and `rejected`; pictures in `digests` are rejected, new ones added to it."""
    samples: list[Row] = []
    rejected: list[Row] = []
    for item in items:
        place = recipe_path(item.source, config.source, source)
        if isinstance(item, SourceItem) and item.image_digest in digests:
            item = RejectedEntry(source=item.source, reason="the same picture stands in the source already")
        if isinstance(item, RejectedEntry):
            rejected.append({"source": place, "reason": item.reason})
            continue
        digests.add(item.image_digest)
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
