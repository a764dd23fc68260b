"""The estimate of a run before it runs: calls, tokens, dollars, GPU memory.

Calls are counted, their tokens are estimated, and what the cache answers costs nothing; so a plan above a cap is a
warning, never a refusal. The cap itself is kept call by call while the run goes on (`llm.spending`). Each method counts
its own calls (`methods/<paper>/estimate`).
"""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rubricworks.llm import Budget, Endpoint
from rubricworks.recipe.methods import METHODS
from rubricworks.recipe.recipe import Recipe
from rubricworks.stages.synthesis.caption_committee import Config as CommitteeConfig
from rubricworks.stages.synthesis.caption_student import Config as StudentConfig
from rubricworks.stages.synthesis.synthesize_rubrics import Config as SynthesisConfig

TOKENS_PER_CRITERION = 60
CRITERIA_PER_RUBRIC = 8
CAPTION_TOKENS = 300
IMAGE_TOKENS = 1_000
"""Rules of thumb for an estimate: a 1024-pixel image, a detailed caption, a rubric of the paper's kind."""
GRADING_IN = 500 + CAPTION_TOKENS + CRITERIA_PER_RUBRIC * TOKENS_PER_CRITERION
GRADING_OUT = CRITERIA_PER_RUBRIC * TOKENS_PER_CRITERION
"""A caption graded by all criteria of its rubric in one call."""
BYTES_PER_PARAMETER = {"full": 18, "lora": 3}
"""Training memory without activations: bf16 weights and gradients, fp32 master weights and Adam; LoRA: weights."""


@dataclass(frozen=True)
class CallEstimate:
    """Requests of one kind to one model."""

    stage: str
    purpose: str
    endpoint: Endpoint
    count: int
    tokens_in: int
    """Per call."""
    tokens_out: int

    @property
    def dollars(self) -> float:
        return self.endpoint.cost(self.count * self.tokens_in, self.count * self.tokens_out)


def estimate_calls(recipe: Recipe, items: int) -> list[CallEstimate]:
    """Every kind of call that a run will make, as its method counts them.

    Args:
        items: images in the source, or questions.
    """
    return list(importlib.import_module(f"{METHODS[recipe.pipeline]}.estimate").estimate_calls(recipe, items))


def rubric_calls(
    committee: CommitteeConfig,
    student: StudentConfig,
    rubric: SynthesisConfig,
    samples: int,
    *,
    describing: str = "caption_committee",
    writing: str = "synthesize_rubrics",
) -> list[CallEstimate]:
    """Those of each teacher, and last the writer's.

    Args:
        describing, writing: the stages that make them.
    """
    count = samples * committee.captions_each
    asked = [
        CallEstimate(describing, "caption", teacher, count, IMAGE_TOKENS, CAPTION_TOKENS)
        for teacher in committee.teachers
    ]
    candidates = len(committee.teachers) * committee.captions_each + student.captions_each
    read = IMAGE_TOKENS + 1_000 + candidates * CAPTION_TOKENS
    written = CRITERIA_PER_RUBRIC * 3 * TOKENS_PER_CRITERION
    return [*asked, CallEstimate(writing, "rubric", rubric.writer, samples, read, written)]


def over_budget(budget: Budget, calls: Sequence[CallEstimate]) -> str:
    """What the plan comes to beside the caps that it exceeds; empty where it exceeds none."""
    tokens = sum(call.count * (call.tokens_in + call.tokens_out) for call in calls)
    dollars = sum(call.dollars for call in calls)
    over, more = [], []
    if budget.dollars is not None and dollars > budget.dollars:
        over.append(f"${dollars:,.2f}, and budget.dollars is {budget.dollars:,.2f}")
        more.append("budget.dollars")
    if budget.tokens is not None and tokens > budget.tokens:
        over.append(f"{tokens:,} tokens, and budget.tokens is {budget.tokens:,}")
        more.append("budget.tokens")
    if not over:
        return ""
    return (
        f"the plan comes to about {'; to '.join(over)}: the run would stop there and keep what it made. "
        f"Raise {' and '.join(more)}, or do less; --dry-run shows what each stage takes"
    )


def training_bytes(student: str, *, lora: bool) -> int | None:
    """GPU memory for weights, gradients and optimiser of a student, None when its size is not known here.

    Args:
        student: a folder or a Hub name, from which the number of parameters is read.
    """
    parameters = _parameters(student)
    return None if parameters is None else parameters * BYTES_PER_PARAMETER["lora" if lora else "full"]


def _parameters(student: str) -> int | None:
    if student == "tiny":
        return 700_000
    weights = list(Path(student).glob("*.safetensors"))
    if weights:
        return sum(path.stat().st_size for path in weights) // 2
    for part in reversed(student.replace("_", "-").split("-")):
        if part[:-1].replace(".", "", 1).isdigit() and part[-1] in "Bb":
            return int(float(part[:-1]) * 1e9)
    return None
