"""Build the `samples` table of a text-to-image run: prompts without images, to train on and held out.

A held-out prompt has several rows, one per image that the evaluation generates. The training never sees a prompt that
is held out. Unusable rows go into the table `rejected` with the reason.
"""

import asyncio
import hashlib
from collections.abc import Iterator

from pydantic import Field

from rubricworks.data.prompts import PromptEntry, prompt_entries
from rubricworks.data.source_entries import RejectedEntry
from rubricworks.data.tables import build_table
from rubricworks.runtime.call_table import Row
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job
from rubricworks.runtime.preflight_checks import DataSource
from rubricworks.runtime.store.source_files import local_source
from rubricworks.stages.data.source_splits import check_splits, hash_order, recipe_path


class Config(StageConfig):
    source: str
    """Prompts: `.txt`, `.jsonl` or Parquet with `prompt`, or with `prompts` of several lengths."""
    held_out_source: str | None = None
    """Held-out prompts in a file of their own, such as GenEval's evaluation_metadata.jsonl; by default `held_out`
    prompts of the source.
    """
    held_out: int = Field(default=500, ge=1)
    """Prompts kept for evaluation, of the source or at most of the held-out source."""
    images_per_prompt: int = Field(default=4, ge=1, le=64)
    """Images that the evaluation generates for each held-out prompt; GenEval takes 4."""
    max_train: int | None = Field(default=None, ge=1)
    """Prompts for RL, drawn at random; all remaining ones by default."""
    shard_size: int = Field(default=1024, ge=1)

    @property
    def data_source(self) -> DataSource | None:
        """The source for the checks before a run; None if it is empty."""
        return DataSource(kind="prompts", source=self.source) if self.source else None


def run(config: Config, job: Job) -> None:
    source = local_source(config.source)
    rows = list(_rows(config, source))
    asyncio.run(
        build_table(
            job.out,
            "samples",
            rows,
            _sort_rows,
            made_by=job.made_by,
            shard_size=config.shard_size,
            side_tables={"rejected": job.out / "rejected"},
            progress=job.progress(len(rows), "prompts").at,
        )
    )
    check_splits(job, source, "prompts")


async def _sort_rows(rows: list[Row]) -> dict[str, list[Row]]:
    return {
        "samples": [row for row in rows if "reason" not in row],
        "rejected": [row for row in rows if "reason" in row],
    }


def _rows(config: Config, source: str) -> Iterator[Row]:
    """Yield rows of `samples`, held-out ones first, and of `rejected`."""
    entries: dict[str, PromptEntry] = {}
    rejected = list(_read(source, config.source, config.seed, entries))
    if config.held_out_source is None:
        held_out = dict.fromkeys(hash_order(entries, config.seed)[: min(config.held_out, len(entries) - 1)])
        evaluated = {prompt: entries[prompt] for prompt in held_out}
    else:
        evaluated = {}
        place = local_source(config.held_out_source)
        rejected += _read(place, config.held_out_source, config.seed, evaluated)
        evaluated = {prompt: evaluated[prompt] for prompt in hash_order(evaluated, config.seed)[: config.held_out]}
    train = [entries[prompt] for prompt in hash_order(entries, config.seed) if prompt not in evaluated]
    for entry in evaluated.values():
        for number in range(config.images_per_prompt):
            yield _sample(entry, "held_out", number)
    for entry in train[: config.max_train]:
        yield _sample(entry, "train", 0)
    yield from rejected


def _read(source: str, recipe: str, seed: int, entries: dict[str, PromptEntry]) -> Iterator[Row]:
    """Fill `entries` by prompt, and yield rows of `rejected`."""
    for entry in prompt_entries(source, seed):
        place = recipe_path(entry.source, recipe, source)
        if isinstance(entry, RejectedEntry):
            yield {"source": place, "reason": entry.reason}
        elif entry.prompt in entries:
            yield {"source": place, "reason": "the same prompt is there already"}
        else:
            entries[entry.prompt] = entry._replace(source=place)


def _sample(entry: PromptEntry, split: str, number: int) -> Row:
    return {
        "sample_id": hashlib.sha256(f"{split}\x00{number}\x00{entry.prompt}".encode()).hexdigest()[:16],
        "split": split,
        "prompt": entry.prompt,
        "references": [],
        "source": entry.source,
        "answer": entry.metadata,
        "task": entry.task,
    }
