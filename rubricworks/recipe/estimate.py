"""The estimate of a run before it starts: calls, tokens, dollars, GPU memory.

Calls are counted, their tokens are estimated, and cached answers cost nothing; so a plan above a cap is a warning,
never an error. The cap itself is enforced call by call during the run (`llm.spending`). Each method counts its own
calls (`methods/<paper>/estimate`).
"""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rubricworks.errors import UserError
from rubricworks.evaluation.scorers.scorer import Workload
from rubricworks.llm import Budget, Endpoint
from rubricworks.llm.token_estimates import CAPTION_TOKENS, CRITERIA_PER_RUBRIC, IMAGE_TOKENS, TOKENS_PER_CRITERION
from rubricworks.recipe.methods import METHODS
from rubricworks.recipe.recipe import Recipe
from rubricworks.runtime import preflight_checks
from rubricworks.runtime.stage_table import STAGES
from rubricworks.stages.evaluation.score import Config as ScoreConfig
from rubricworks.stages.synthesis.caption_committee import Config as CommitteeConfig
from rubricworks.stages.synthesis.caption_student import Config as StudentConfig
from rubricworks.stages.synthesis.synthesize_rubrics import Config as SynthesisConfig
from rubricworks.training.config import PolicyConfig, SftConfig

BYTES_PER_PARAMETER = {"full": 18, "lora": 3}
"""Training memory without activations: bf16 weights and gradients, fp32 master weights and Adam; LoRA: weights."""

CPU_PARAMETERS = 50_000_000
"""Size up to which a student is trained without a GPU, unasked: a step of GRPO then takes seconds."""


@dataclass(frozen=True)
class CallEstimate:
    """Requests of one kind to one model."""

    stage: str
    purpose: str
    endpoint: Endpoint
    count: int
    tokens_in: int
    """Tokens per call, as `tokens_out`."""
    tokens_out: int

    @property
    def dollars(self) -> float:
        return self.endpoint.cost(self.count * self.tokens_in, self.count * self.tokens_out)


def count_items(recipe: Recipe) -> int:
    """Count the images or questions in the recipe's source, without opening or fetching them.

    Raises:
        UserError: there is none that can be used.
    """
    data = recipe.data_source
    return preflight_checks.count_items(data) if data else 0


def planned_items(recipe: Recipe) -> int:
    """Images or questions that a run will have; those of a scene world are known before it is drawn."""
    return count_items(recipe) if recipe.world is None else recipe.items_in_world()


def estimate_calls(recipe: Recipe, items: int) -> list[CallEstimate]:
    """Estimate every kind of call of a run, as its method counts them.

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
    caption_stage: str = "caption_committee",
    rubric_stage: str = "synthesize_rubrics",
) -> list[CallEstimate]:
    """Estimate the calls of a rubric synthesis: those of each teacher, then those of the writer.

    Args:
        caption_stage, rubric_stage: ids of the stages that make the calls.
    """
    count = samples * committee.captions_each
    caption_calls = [
        CallEstimate(caption_stage, "caption", teacher, count, IMAGE_TOKENS, CAPTION_TOKENS)
        for teacher in committee.teachers
    ]
    candidates = len(committee.teachers) * committee.captions_each + student.captions_each
    tokens_in = IMAGE_TOKENS + 1_000 + candidates * CAPTION_TOKENS
    tokens_out = CRITERIA_PER_RUBRIC * 3 * TOKENS_PER_CRITERION
    return [*caption_calls, CallEstimate(rubric_stage, "rubric", rubric.writer, samples, tokens_in, tokens_out)]


def scoring_calls(config: ScoreConfig, samples: int, *, trained: int = 1) -> list[CallEstimate]:
    """Estimate the calls of the stage `score`, as each scorer plans them.

    Args:
        trained: trained models with each decoding, besides the base; every milestone counts.
    """
    own = trained * len(config.decodings) + len(config.models)
    work = Workload(samples * (own + len(config.decodings)), samples * own)
    return [
        CallEstimate("score", planned.purpose, planned.endpoint, planned.count, planned.tokens_in, planned.tokens_out)
        for scorer in config.scorers
        for planned in scorer.plan(work)
    ]


def budget_excess(budget: Budget, calls: Sequence[CallEstimate]) -> str:
    """Text that compares the plan with the caps that it exceeds; empty if it exceeds none."""
    tokens = sum(call.count * (call.tokens_in + call.tokens_out) for call in calls)
    dollars = sum(call.dollars for call in calls)
    excess, fields = [], []
    if budget.dollars is not None and dollars > budget.dollars:
        excess.append(f"${dollars:,.2f}, and budget.dollars is {budget.dollars:,.2f}")
        fields.append("budget.dollars")
    if budget.tokens is not None and tokens > budget.tokens:
        excess.append(f"{tokens:,} tokens, and budget.tokens is {budget.tokens:,}")
        fields.append("budget.tokens")
    if not excess:
        return ""
    return (
        f"the plan comes to about {'; to '.join(excess)}: the run would stop there and keep what it made. "
        f"Raise {' and '.join(fields)}, or do less; --dry-run shows what each stage takes"
    )


def budget_warning(recipe: Recipe) -> str:
    """Text if the plan exceeds the recipe's budget, or cannot be compared with it; empty otherwise.

    The stage `preflight` stands below recipes and knows no plan, so it cannot say this. A retraining has no plan: its
    cost is found with the champion.
    """
    if (recipe.budget.tokens is None and recipe.budget.dollars is None) or recipe.plan_in_words():
        return ""
    try:
        return budget_excess(recipe.budget, estimate_calls(recipe, planned_items(recipe)))
    except UserError as error:
        return f"the plan was not held against the budget, since its samples cannot be counted here: {error}"


def plan_text(recipe: Recipe) -> str:
    """The plan of a run for `--dry-run`: its stages with calls, tokens and dollars, and the memory for training."""
    if words := recipe.plan_in_words():
        return words
    items = planned_items(recipe)
    calls = estimate_calls(recipe, items)
    held_out = min(recipe.held_out, items)
    lines = [f"{recipe.name}: {recipe.pipeline} on {items} {recipe.item_noun}s, {held_out} of them held out", ""]
    lines.append(f"{'stage':<20} {'calls':>9}  {'for':<9} {'model':<34} {'tokens in':>11} {'out':>11} {'dollars':>9}")
    for stage in recipe.stage_configs():
        kinds = [call for call in calls if call.stage == stage]
        if not kinds:
            lines.append(f"{stage:<20} {'-':>9}")
        for call in kinds:
            tokens = f"{call.count * call.tokens_in:>11,} {call.count * call.tokens_out:>11,}"
            dollars = f"{call.dollars:>9.2f}" if call.endpoint.price_in or call.endpoint.price_out else f"{'-':>9}"
            lines.append(
                f"{stage:<20} {call.count:>9,}  {call.purpose:<9} {call.endpoint.model:<34} {tokens} {dollars}"
            )
    free = {call.endpoint.model for call in calls if not call.endpoint.price_in and not call.endpoint.price_out}
    lines += ["", f"dollars in all: {sum(call.dollars for call in calls):.2f}, by the prices in the recipe"]
    if free and not recipe.world:
        lines[-1] += f"; {len(free)} model{'s have' if len(free) > 1 else ' has'} no price there and count nothing"
    if excess := budget_excess(recipe.budget, calls):
        lines.append(f"warning: {excess}")
    lines.append("calls are counted, tokens estimated; repeated requests come from the cache")
    if recipe.base_model is not None:
        memory = training_bytes(recipe.base_model, lora=recipe.lora)
        size = "not known from its name" if memory is None else f"{memory / 2**30:.1f} GiB and its activations"
        lines.append(f"memory to train {recipe.base_model}: {size}")
        lines += process_memory(recipe)
    return "\n".join(lines)


def process_memory(recipe: Recipe) -> list[str]:
    """Memory of each process, and disk space, of the trainings that a cluster shards over several accelerators.

    Three checkpoints lie on the disk while the oldest is replaced: weights twice, as FSDP's own file and as a model,
    and Adam's moments. The model and the milestones are saved in the precision of `bf16`.
    """
    lines = []
    for stage, config in recipe.stage_configs().items():
        if recipe.cluster is None or not STAGES[stage].multi_process:
            continue
        placement = recipe.cluster.placement(stage)
        processes = (placement.accelerators or 1) * (placement.train_job.nodes if placement.train_job else 1)
        options: Any = getattr(config, "rlvr", None) or (getattr(config, "sft", None) if stage == "warm_up" else config)
        parameters = count_parameters(getattr(config, "student", None) or str(recipe.base_model))
        if processes < 2 or options is None or options.lora or parameters is None:
            continue
        each = parameters * training_bytes_each(options) / processes / 2**30
        read = parameters * (4 if options.master_weights or not options.bf16 else 2) / 2**30
        every = getattr(options, "milestone_every", 0)
        models = 1 + (options.steps // every if every and options.steps else 0)
        disk = parameters * (3 * training_bytes_each(options) + models * (2 if options.bf16 else 4)) / 2**30
        lines.append(
            f"  {stage} on {processes} accelerators: {each:.1f} GiB each, with activations and vLLM beside it; "
            f"{read:.0f} GiB of host memory for the process that reads the weights; {disk:.0f} GiB of disk "
            f"(cluster.workspace.size is {recipe.cluster.workspace.size})"
        )
    return lines


def training_bytes_each(options: SftConfig | PolicyConfig) -> int:
    """Bytes of a parameter with its gradient and Adam's two moments, all in the precision of the weights."""
    return 8 if options.bf16 and not options.master_weights else 16


def training_bytes(student: str, *, lora: bool) -> int | None:
    """Estimate the GPU memory for weights, gradients and optimiser of a student; None if its size is unknown.

    Args:
        student: a folder or a Hub name, which tells the number of parameters.
    """
    parameters = count_parameters(student)
    return None if parameters is None else parameters * BYTES_PER_PARAMETER["lora" if lora else "full"]


def count_parameters(student: str) -> int | None:
    """Estimate the number of parameters from a folder's weights, or from the name; None if neither tells."""
    if student == "tiny":
        return 700_000
    weights = list(Path(student).glob("*.safetensors"))
    if weights:
        return sum(path.stat().st_size for path in weights) // 2
    for part in reversed(student.replace("_", "-").split("-")):
        if part[:-1].replace(".", "", 1).isdigit() and part[-1] in "Bb":
            return int(float(part[:-1]) * 1e9)
    return None
