"""The estimate of a run before it starts: calls, tokens, dollars, GPU memory.

Calls are counted, their tokens are estimated, and cached answers cost nothing; so a plan above a cap is a warning,
never an error. The cap itself is enforced call by call during the run (`llm.spending`). Each method counts its own
calls (`Recipe.estimate_calls`).
"""

from collections.abc import Sequence

from rubricworks.errors import UserError
from rubricworks.evaluation.rubric_audit import MAX_PROBES, MAX_READINGS
from rubricworks.evaluation.scorers.scorer import Workload
from rubricworks.llm import Budget, Endpoint
from rubricworks.llm.image_tokens import image_tokens
from rubricworks.llm.usage import (
    CAPTION_TOKENS,
    CRITERIA_PER_RUBRIC,
    READING_IN,
    READING_OUT,
    TOKENS_PER_CRITERION,
    GradingCalls,
    grading_calls,
)
from rubricworks.policy.policy import Policy
from rubricworks.policy.rewards.reward import TrainingSize
from rubricworks.recipe.benchmark_plan import Speeds, benchmark_lines
from rubricworks.recipe.recipe import CallEstimate, Recipe
from rubricworks.recipe.served_models import plan_lines
from rubricworks.recipe.sizes import colocate_warning, process_memory, training_bytes, workspace_lines
from rubricworks.runtime import preflight_checks
from rubricworks.stages.evaluation.score_config import Evaluation, ImageEvaluation
from rubricworks.stages.synthesis.caption_committee import Config as CommitteeConfig
from rubricworks.stages.synthesis.caption_student import Config as StudentConfig
from rubricworks.stages.synthesis.rubric_gate import AuditGate
from rubricworks.stages.synthesis.synthesize_rubrics import Config as SynthesisConfig
from rubricworks.tracking.gate import Gate


def count_items(recipe: Recipe) -> int:
    """Count the images or questions in the recipe's source, without opening or fetching them.

    Raises:
        UserError: there is none that can be used.
    """
    data = recipe.data_source
    return preflight_checks.count_items(data) if data else 0


def planned_items(recipe: Recipe) -> int:
    """Number of images or questions of a run, which for a scene world is known before it is drawn."""
    return count_items(recipe) if recipe.world is None else recipe.items_in_world()


def estimate_calls(recipe: Recipe, items: int) -> list[CallEstimate]:
    """Estimate every kind of call of a run, as its method counts them.

    Args:
        items: images in the source, or questions.
    Raises:
        UserError: the calls are not known before the run.
    """
    if recipe.plan_in_words():
        raise UserError(
            f"{recipe.name}: the calls of pipeline {recipe.pipeline} are not known before a run; "
            "`rubricworks run --dry-run` says what is"
        )
    return list(recipe.estimate_calls(items))


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
        CallEstimate(caption_stage, "caption", teacher, count, image_tokens(teacher), CAPTION_TOKENS)
        for teacher in committee.teachers
    ]
    candidates = len(committee.teachers) * committee.captions_each + student.captions_each
    tokens_in = image_tokens(rubric.writer) + 1_000 + candidates * CAPTION_TOKENS
    tokens_out = CRITERIA_PER_RUBRIC * 3 * TOKENS_PER_CRITERION
    return [*caption_calls, CallEstimate(rubric_stage, "rubric", rubric.writer, samples, tokens_in, tokens_out)]


def policy_calls(
    stage: str, policy: Policy, size: TrainingSize, captioners: Sequence[Endpoint] = ()
) -> list[CallEstimate]:
    """Estimate the calls of a policy training.

    Args:
        captioners: models whose captions the run has anyway.
    """
    return [CallEstimate.of(stage, calls) for calls in policy.estimate(size, captioners)]


def audit_calls(stage: str, gate: AuditGate, train: int, tokens: GradingCalls | None = None) -> list[CallEstimate]:
    """Estimate the calls of a gate on written rubrics.

    Args:
        train: samples to train on.
        tokens: of one grading; by default those of the gate's `call_per`.
    """
    rubrics = min(gate.sample, train)
    calls = grading_calls(rubrics * MAX_PROBES, gate.call_per)
    if tokens is not None:
        calls = tokens._replace(calls=rubrics * MAX_PROBES)
    reading = CallEstimate(stage, "audit reading", gate.judges[0], rubrics * MAX_READINGS, READING_IN, READING_OUT)
    return [reading, *(CallEstimate(stage, "audit", judge, *calls) for judge in gate.judges)]


def scoring_calls(
    config: Evaluation, samples: int, *, trained: int = 1, prompts: int | None = None
) -> list[CallEstimate]:
    """Estimate the calls of the stage `score`, as each scorer plans them.

    Args:
        trained: trained models with each decoding, besides the base; every milestone counts.
        prompts: different prompts among the samples, where several images are drawn of each.
    """
    chooser = config.best_of if isinstance(config, ImageEvaluation) else None
    own = trained * len(config.decodings) + len(config.models) + (chooser is not None)
    models = own + len(config.decodings)
    work = Workload(samples * models, samples * own, models)
    rewriting = []
    if isinstance(config, ImageEvaluation) and config.rewriter:
        rewriting = [CallEstimate("score", "rewriting", config.rewriter, prompts or samples, 250, 120)]
    planned = list(chooser.plan(Workload(samples, samples))) if chooser else []
    planned += [calls for scorer in config.scorers for calls in scorer.plan(work)]
    return rewriting + [CallEstimate.of("score", calls) for calls in planned]


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


def unreachable_promises(recipe: Recipe, items: int) -> list[str]:
    """Sentences about what the run cannot deliver, whatever comes of its training.

    Args:
        items: images or questions in the source.
    """
    gate, split = getattr(getattr(recipe, "promotion", None), "gate", None), min(recipe.held_out, max(items - 1, 0))
    if not isinstance(gate, Gate):
        return []
    fewer = [f"data.held_out is {recipe.held_out}, and {items} {recipe.item_noun}s leave {split}"]
    sentences = fewer if split < recipe.held_out else []
    if gate.figures and split < gate.samples_at_least:
        sentences.append(
            f"no model of this run is promoted: its gate needs {gate.samples_at_least} judged {recipe.item_noun}s "
            f"(promotion.gate.samples_at_least), and {split} are held out (data.held_out). Hold out more, or give more "
            f"{recipe.item_noun}s"
        )
    return sentences


def promise_warnings(recipe: Recipe) -> list[str]:
    """`unreachable_promises` of a recipe's source; none where its samples cannot be counted here."""
    if recipe.plan_in_words() or recipe.arm is not None:
        return []
    try:
        return unreachable_promises(recipe, planned_items(recipe))
    except UserError:  # a check reports it
        return []


def _dollars_in_all(recipe: Recipe, calls: Sequence[CallEstimate]) -> str:
    """The sum of a plan; models without a price have an unknown one, except those of a scene world."""
    total = sum(call.dollars for call in calls)
    unpriced = sorted({call.endpoint.model for call in calls if not (call.endpoint.is_priced or call.endpoint.serve)})
    if not unpriced or recipe.world:
        return f"dollars in all: {total:.2f}, by the prices in the recipe"
    missing = f"the recipe has no price of {', '.join(unpriced)} (prices)"
    return f"dollars in all: at least {total:.2f}; {missing}" if total else f"dollars in all: not known; {missing}"


def plan_text(recipe: Recipe, speeds: Speeds | None = None, *, gpu_hour: float | None = None) -> str:
    """The plan of a run for `--dry-run`: its stages with calls, tokens and dollars, and the memory for training.

    Args:
        speeds: measured speeds of the base model on benchmarks.
        gpu_hour: dollars of one accelerator for an hour.
    """
    if words := recipe.plan_in_words():
        return words
    items = planned_items(recipe)
    calls = estimate_calls(recipe, items)
    held_out = min(recipe.held_out, items)
    lines = [f"{recipe.name}: {recipe.pipeline} on {items} {recipe.item_noun}s, {held_out} of them held out", ""]
    width = max((len(call.purpose) for call in calls), default=0)
    lines.append(
        f"{'stage':<20} {'calls':>9}  {'for':<{width}} {'model':<34} {'tokens in':>11} {'out':>11} {'dollars':>9}"
    )
    for stage in recipe.stage_configs():
        kinds = [call for call in calls if call.stage == stage]
        if not kinds:
            lines.append(f"{stage:<20} {'-':>9}")
        for call in kinds:
            tokens = f"{call.count * call.tokens_in:>11,} {call.count * call.tokens_out:>11,}"
            dollars = f"{call.dollars:>9.2f}" if call.endpoint.is_priced else f"{'-':>9}"
            lines.append(
                f"{stage:<20} {call.count:>9,}  {call.purpose:<{width}} {call.endpoint.model:<34} {tokens} {dollars}"
            )
    lines += ["", _dollars_in_all(recipe, calls)]
    if excess := budget_excess(recipe.budget, calls):
        lines.append(f"warning: {excess}")
    lines += [f"warning: {promise}" for promise in promise_warnings(recipe)]
    lines.append("calls are counted, tokens estimated; stages may end early, and repeated requests come from the cache")
    lines += benchmark_lines(recipe, items, speeds, gpu_hour)
    lines += plan_lines(recipe.serve, recipe.stage_configs())
    if recipe.base_model is not None:
        memory = training_bytes(recipe, recipe.base_model)
        size = "not known from its name" if memory is None else f"{memory / 2**30:.1f} GiB and its activations"
        lines.append(f"memory to train {recipe.base_model}: {size}")
        lines += process_memory(recipe)
        lines += workspace_lines(recipe)
        if warning := colocate_warning(recipe):
            lines.append(f"warning: {warning}")
    return "\n".join(lines)
