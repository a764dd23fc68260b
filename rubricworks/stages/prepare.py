"""Images to the `samples` table: read, check, de-duplicate, split.

Which images are held out, and which are taken at all under `max_train`, is drawn by a hash of their names, and so by
neither the order nor the machine. A picture that stands twice is kept once: none is both trained on and held out.
What cannot be used goes into the table `rejected`, with the reason.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Iterator

import pyarrow.parquet as pq
from pydantic import Field

from rubricworks.data.found import FoundImage, Rejected
from rubricworks.data.sources import SourceItem, find_images, open_image
from rubricworks.data.tables import build_table, count_rows, read_rows
from rubricworks.environment import fill
from rubricworks.errors import UserError
from rubricworks.stages.asking import Row
from rubricworks.stages.config import StageConfig
from rubricworks.stages.job import Job
from rubricworks.synthesis.prompts import CAPTION_PROMPT


class Config(StageConfig):
    source: str
    """A folder of images, a Parquet file or folder, a Hugging Face dataset on disk, or a WebDataset tar."""
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


def run(config: Config, job: Job) -> None:
    source = fill(config.source, "data.source")
    splits = _draw(config, source)
    seen = _digests_there(job)

    def as_written(place: str) -> str:
        """With the recipe's variables, so that the table does not depend on where a folder lies today."""
        return config.source + place.removeprefix(source) if place.startswith(source) else place

    async def make_rows(found: list[FoundImage | Rejected]) -> dict[str, list[Row]]:
        samples: list[Row] = []
        rejected: list[Row] = []
        for item in (open_image(one, max_side=config.max_side) for one in found):
            if isinstance(item, SourceItem) and item.image_digest in seen:
                item = Rejected(source=item.source, reason="the same picture stands in the source already")
            if isinstance(item, Rejected):
                rejected.append({"source": as_written(item.source), "reason": item.reason})
                continue
            seen.add(item.image_digest)
            samples.append({**_sample(item, config.prompt, splits[item.key]), "source": as_written(item.source)})
        return {"samples": samples, "rejected": rejected}

    def wanted() -> Iterator[FoundImage | Rejected]:
        return (one for one in find_images(source) if isinstance(one, Rejected) or one.key in splits)

    manifest = asyncio.run(
        build_table(
            job.out,
            "samples",
            wanted(),
            make_rows,
            made_by=job.made_by,
            shard_size=config.shard_size,
            also={"rejected": job.out / "rejected"},
            progress=job.progress(len(splits), "images").at,
        )
    )
    rejected = count_rows(job.out / "rejected")
    job.figures.update(samples=manifest.rows, rejected=rejected)
    found = Counter(row["split"] for row in read_rows(job.out, columns=["split"]))
    if not found["train"] or not found["held_out"]:
        job.void()
        reasons = "; ".join(f"{row['source']}: {row['reason']}" for row in list(read_rows(job.out / "rejected"))[:3])
        raise UserError(
            f"{source}: {found['train']} images to train on and {found['held_out']} held out are usable, "
            f"at least one of each is needed{f' (rejected {rejected}: {reasons})' if rejected else ''}"
        )


def _draw(config: Config, source: str) -> dict[str, str]:
    """Key → split of the images that are taken."""
    keys = [found.key for found in find_images(source) if isinstance(found, FoundImage)]
    if len(keys) < 2:
        raise UserError(f"{source}: {len(keys)} usable images; at least 2 are needed, one to train on and one held out")
    ranked = sorted(keys, key=lambda key: hashlib.sha256(f"{config.seed}:{key}".encode()).digest())
    held_out = min(config.held_out, len(keys) - 1)
    warm_up = min(config.warm_up, len(keys) - 1 - held_out)
    rest = ranked[held_out + warm_up :][: config.max_train]
    return (
        dict.fromkeys(ranked[:held_out], "held_out")
        | dict.fromkeys(ranked[held_out : held_out + warm_up], "warm_up")
        | dict.fromkeys(rest, "train")
    )


def _digests_there(job: Job) -> set[str]:
    """Of the shards that an earlier attempt has committed: their pictures count as seen."""
    return {
        digest
        for shard in sorted(job.out.glob("part-*.parquet"))
        for digest in pq.read_table(shard, columns=["image_digest"])["image_digest"].to_pylist()
    }


def _sample(item: SourceItem, prompt: str, split: str) -> Row:
    return {
        "sample_id": hashlib.sha256(f"{item.image_digest}\x00{prompt}".encode()).hexdigest()[:16],
        "split": split,
        "image": item.image,
        "image_digest": item.image_digest,
        "prompt": prompt,
        "references": list(item.references),
    }
