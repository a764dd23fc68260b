"""Write one rubric per text-to-image prompt, before training and without images (RubricRL, section 3.2).

A prompt of which no candidate passed the checks has no row but a dead letter with the reasons, like a failed call;
dropped candidates are counted by reason. `rubrics` rows have the number of candidates that passed in `candidates`.
"""

from collections import Counter

from pydantic import Field

from rubricworks.data.tables import Sample, count_samples, read_samples
from rubricworks.llm import ChatError, Endpoint
from rubricworks.methods.rubricrl.rubric_keys import KeyControls
from rubricworks.methods.rubricrl.rubric_prompts import PROMPT_RUBRIC_VERSION
from rubricworks.methods.rubricrl.rubric_writer import PromptRubricResult, PromptRubricWriter
from rubricworks.rubrics import ErrorClass
from rubricworks.runtime.call_table import Answers, ask_all, dead_letter
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job

SPLITS = ("train", "held_out")


class Config(StageConfig):
    writer: Endpoint
    """Writes candidates and selects among them; it sees the prompt alone."""
    keys: KeyControls = KeyControls()
    """Changes to the pool of aspects that criteria may be about."""
    queries: int = Field(default=3, ge=1, le=20)
    """Calls for candidates, each with the aspects in another order."""
    per_query: int = Field(default=10, ge=1, le=50)
    """Criteria per call of the writer (RubricRL, section 3.2)."""
    select: int = Field(default=10, ge=1, le=50)
    """Criteria of a rubric, at most; 10 is the best of the paper's Table 9."""
    shard_size: int = Field(default=64, ge=1)


def run(config: Config, job: Job) -> None:
    client = job.client(config.writer, "rubric")
    writer = PromptRubricWriter(
        client,
        controls=config.keys,
        queries=config.queries,
        per_query=config.per_query,
        select=config.select,
        seed=config.seed,
    )
    dropped: Counter[str] = Counter()
    keys: Counter[str] = Counter()

    async def write(sample: Sample) -> Answers:
        purpose = f"rubric by {config.writer.model}"
        try:
            result = await writer.write(sample.prompt)
        except ChatError as error:
            return Answers([], [dead_letter(sample.sample_id, job, purpose, error)])
        dropped.update(reason for _, reason in result.dropped)
        letters = [dead_letter(sample.sample_id, job, purpose, error) for error in result.failures]
        if result.rubric is None:
            return Answers([], [*letters, dead_letter(sample.sample_id, job, purpose, _nothing_left(result, config))])
        keys.update(criterion.key for criterion in result.rubric.criteria)
        row = {
            "sample_id": sample.sample_id,
            "rubric": result.rubric.model_dump_json(),
            "writer": config.writer.model,
            "prompt_version": PROMPT_RUBRIC_VERSION,
            "coverage": "prompt",
            "candidates": len(result.pool),
            "prompt_tokens": result.usage.prompt_tokens,
            "completion_tokens": result.usage.completion_tokens,
            "cost": result.usage.cost,
        }
        return Answers([row], letters)

    samples = job.inputs["samples"]
    ask_all(
        job,
        "rubrics",
        read_samples(samples, *SPLITS),
        write,
        total=count_samples(samples, *SPLITS),
        shard_size=config.shard_size,
        clients=[client],
    )
    job.figures.update(dropped_candidates=dict(dropped), criteria_by_key=dict(keys))


def _nothing_left(result: PromptRubricResult, config: Config) -> ChatError:
    reasons = Counter(reason for _, reason in result.dropped)
    listed = "; ".join(f"{count} x {reason}" for reason, count in reasons.most_common()) or "none was written"
    message = f"no criterion is left of {len(result.dropped)} candidates, so the prompt is left out: {listed}"
    return ChatError(ErrorClass.MALFORMED, message, attempts=config.queries)
