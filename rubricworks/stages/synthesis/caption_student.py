"""Caption every sample with the warmed-up student; the rubric writer looks for failures in these captions."""

import asyncio

from pydantic import Field

from rubricworks.data.tables import Sample, build_table, count_samples, read_samples
from rubricworks.llm.answers import split_thought
from rubricworks.runtime.call_table import Row
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job, model_dir
from rubricworks.stages.synthesis.caption_committee import SPLITS
from rubricworks.synthesis.prompts import CAPTION_PROMPT_VERSION
from rubricworks.training.config import EngineOptions


class Config(StageConfig):
    captions_each: int = Field(default=1, ge=1, le=16)
    """Captions per sample; with several, the student counts as failing where any of them does."""
    temperature: float = Field(default=0.0, ge=0)
    """0 is greedy."""
    max_new_tokens: int = Field(default=1024, ge=1)
    batch_size: int = Field(default=64, ge=1)
    engine: EngineOptions = EngineOptions()
    """Engine that writes the captions: `{kind: vllm}` on GPUs."""


def run(config: Config, job: Job, splits: tuple[str, ...] = SPLITS) -> None:
    from rubricworks.training.engine import load_engine

    folder = model_dir(job.inputs["model"])
    engine = load_engine(folder, config.engine, batch_size=config.batch_size)
    samples = job.inputs["samples"]
    progress = job.progress(count_samples(samples, *splits), "samples")

    def generate(chunk: list[Sample], seed: int) -> list[tuple[str, int]]:
        return engine(
            [sample.require_image("the student captions it") for sample in chunk],
            [sample.prompt for sample in chunk],
            max_new_tokens=config.max_new_tokens,
            temperature=config.temperature,
            seed=seed,
        )

    async def caption(chunk: list[Sample]) -> list[Row]:
        seeds = [config.seed + index for index in range(config.captions_each)]
        captions_by_seed = [generate(chunk, seed) for seed in seeds]
        return [
            {
                "sample_id": sample.sample_id,
                "captioner": "student",
                "model": folder.parent.name,
                "revision": job.made_by["inputs"]["model"],
                "prompt_version": CAPTION_PROMPT_VERSION,
                "endpoint": "",
                "seed": seed,
                "caption": split_thought(text).answer,
                "prompt_tokens": 0,
                "completion_tokens": tokens,
                "cost": 0.0,
            }
            for sample, captions in zip(chunk, zip(*captions_by_seed, strict=True), strict=True)
            for seed, (text, tokens) in zip(seeds, captions, strict=True)
        ]

    manifest = asyncio.run(
        build_table(
            job.out,
            "captions",
            read_samples(samples, *splits),
            caption,
            made_by=job.made_by,
            shard_size=config.batch_size,
            progress=progress.at,
        )
    )
    engine.close()
    job.figures["captions"] = manifest.rows
