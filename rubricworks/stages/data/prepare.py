"""Images to the `samples` table: read, check, de-duplicate, split.

Which images are held out, and which are taken at all under `max_train`, is drawn by a hash of their names, and so by
neither the order nor the machine. A picture that stands twice is kept once: none is both trained on and held out.
What cannot be used goes into the table `rejected`, with the reason. Images given by URL are fetched as their shard is
made, from the hosts that the recipe allows.
"""

import asyncio
import hashlib
from operator import not_
from typing import TYPE_CHECKING

from pydantic import Field, field_validator

from rubricworks.data.hosts import AllowedHosts
from rubricworks.data.manifest import Manifest
from rubricworks.data.source_entries import Entries, ImageEntry, RejectedEntry
from rubricworks.data.sources import SourceItem, image_entries, open_images
from rubricworks.data.tables import build_table
from rubricworks.errors import UserError
from rubricworks.runtime.call_table import Row
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job
from rubricworks.runtime.store.source_files import local_source
from rubricworks.stages.data.source_splits import as_written, check_splits, in_drawn_order
from rubricworks.synthesis.prompts import CAPTION_PROMPT

if TYPE_CHECKING:
    from rubricworks.data.remote import Fetcher


class Config(StageConfig):
    source: str
    """A folder of images, a Parquet file or folder, a Hugging Face dataset on disk, or a WebDataset tar; `urls:` and a
    text file with one URL a line. Parquet and datasets may hold URLs, too."""
    allowed_hosts: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """Where images given by URL may be fetched: `images.example.org`, `*.example.org`, `host:8080`. None by default."""
    prompt: str = CAPTION_PROMPT
    """What the models are asked about every image."""
    held_out: int = Field(default=500, ge=1)
    """Samples kept for evaluation."""
    warm_up: int = Field(default=0, ge=0)
    """Samples whose references only the warm-up reads: no committee, no rubric, no RL."""
    max_train: int | None = Field(default=None, ge=1)
    """Take this many for RL, drawn at random; by default all that are left."""
    max_side: int = Field(default=1024, ge=16)
    """Larger images are scaled down to this many pixels on their longer side."""
    shard_size: int = Field(default=256, ge=1)

    @field_validator("allowed_hosts")
    @classmethod
    def _hosts(cls, entries: tuple[str, ...]) -> tuple[str, ...]:
        AllowedHosts(entries)
        return entries


def run(config: Config, job: Job, *, fetcher: "Fetcher | None" = None) -> None:
    """Make the tables `samples` and `rejected`; a test may give a fetcher that reaches its own server."""
    from rubricworks.data.remote import Fetcher

    source = local_source(config.source)
    hosts = AllowedHosts(config.allowed_hosts)
    splits, refused = draw(config, source, hosts.screen(image_entries(source), source))
    seen = _digests_there(job)

    def wanted() -> Entries:
        screened = hosts.screen(image_entries(source), source)
        return (one for one in screened if isinstance(one, RejectedEntry) or one.key in splits)

    async def build(fetcher: Fetcher) -> Manifest:
        async def make_rows(found: list[ImageEntry | RejectedEntry]) -> dict[str, list[Row]]:
            items = await open_images(found, fetcher, max_side=config.max_side)
            return _rows(items, config, source, splits, seen)

        async with fetcher:
            return await build_table(
                job.out,
                "samples",
                wanted(),
                make_rows,
                made_by=job.made_by,
                shard_size=config.shard_size,
                side_tables={"rejected": job.out / "rejected"},
                progress=job.progress(len(splits) + refused, "images").at,
            )

    asyncio.run(build(fetcher or Fetcher(hosts)))
    check_splits(job, source, "images")


def draw(config: Config, source: str, found: Entries) -> tuple[dict[str, str], int]:
    """Key → split of the images that are taken, and how many places of the source hold none."""
    keys: list[str] = []
    refused = 0
    first = ""
    for one in found:
        if isinstance(one, ImageEntry):
            keys.append(one.key)
        else:
            refused += 1
            first = first or f" (rejected {one.source}: {one.reason})"
    if len(keys) < 2:
        raise UserError(
            f"{source}: {len(keys)} usable images; at least 2 are needed, one to train on and one held out{first}"
        )
    ranked = in_drawn_order(keys, config.seed)
    held_out = min(config.held_out, len(keys) - 1)
    warm_up = min(config.warm_up, len(keys) - 1 - held_out)
    rest = ranked[held_out + warm_up :][: config.max_train]
    splits = (
        dict.fromkeys(ranked[:held_out], "held_out")
        | dict.fromkeys(ranked[held_out : held_out + warm_up], "warm_up")
        | dict.fromkeys(rest, "train")
    )
    return splits, refused


def _digests_there(job: Job) -> set[str]:
    """Of the shards that an earlier attempt has committed: their pictures count as seen."""
    import pyarrow.parquet as pq

    return {
        digest
        for shard in sorted(job.out.glob("part-*.parquet"))
        for digest in pq.read_table(shard, columns=["image_digest"])["image_digest"].to_pylist()
    }


def _rows(
    items: list[SourceItem | RejectedEntry], config: Config, source: str, splits: dict[str, str], seen: set[str]
) -> dict[str, list[Row]]:
    """Samples and rejected; a picture that was seen is rejected, and others are added to those seen."""
    samples: list[Row] = []
    rejected: list[Row] = []
    for item in items:
        place = as_written(item.source, config.source, source)
        if isinstance(item, SourceItem) and item.image_digest in seen:
            item = RejectedEntry(source=item.source, reason="the same picture stands in the source already")
        if isinstance(item, RejectedEntry):
            rejected.append({"source": place, "reason": item.reason})
            continue
        seen.add(item.image_digest)
        samples.append({**_sample(item, config.prompt, splits[item.key]), "source": place})
    return {"samples": samples, "rejected": rejected}


def _sample(item: SourceItem, prompt: str, split: str) -> Row:
    return {
        "sample_id": sample_id_of(item.image_digest, prompt),
        "split": split,
        "image": item.image,
        "image_digest": item.image_digest,
        "prompt": prompt,
        "references": list(item.references),
    }


def sample_id_of(image_digest: str, prompt: str) -> str:
    """Names a picture with what is asked about it, wherever it lies."""
    return hashlib.sha256(f"{image_digest}\x00{prompt}".encode()).hexdigest()[:16]
