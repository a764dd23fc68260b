"""Needs of a recipe at full size: memory and disk of each training, calls, dollars."""

from collections.abc import Iterator
from typing import NamedTuple

from rubricworks.errors import UserError
from rubricworks.recipe import Recipe
from rubricworks.recipe.estimate import estimate_calls, planned_items
from rubricworks.recipe.sizes import training_disk, trainings
from rubricworks.rehearsal.memory import StepShape, step_memory
from rubricworks.rehearsal.shapes import Shape
from rubricworks.rehearsal.tower_memory import tower_activations
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.stage_table import STAGES
from rubricworks.training.config import PolicyConfig, SupervisedConfig

PROCESSES = 8
"""Accelerators of a training for which the recipe's `cluster:` names none."""
_PROMPT = 1_500
"""Tokens of a prompt with an image of 1,024 pixels, where no setting bounds it."""
_TEXT = 512
"""Tokens of a supervised example's text, where no setting bounds it."""
_SIDE = 1024
"""Side of an image, in pixels."""
_TEXT_ONLY = ("train_genrm",)
"""Stages whose examples have no images."""


class TrainingNeeds(NamedTuple):
    """Needs of one training of a stage."""

    stage: str
    kind: str
    """Part of the stage: `sft`, `rlvr`, `algorithm`."""
    model: str
    parameters: int
    processes: int
    memory: int
    """Bytes on each accelerator, without vLLM."""
    activations: int
    """Part that grows with rows and tokens."""
    tower: int
    """Part that a vision tower keeps of an image in each row."""
    disk: int
    """Bytes of its checkpoints and models."""
    rows: int
    tokens: int

    @property
    def text(self) -> str:
        gib = 1 << 30
        images = f" and {self.tower / gib:.0f} for their images of {_SIDE:,} pixels" if self.tower else ""
        return (
            f"{self.stage} ({self.kind}) of {self.parameters / 1e9:.1f}B parameters on {self.processes} accelerators: "
            f"{self.memory / gib:.0f} GiB each, of it {self.activations / gib:.0f} for {self.rows} rows of "
            f"{self.tokens:,} tokens{images}; {self.disk / gib:.0f} GiB of disk"
        )


def training_needs(recipe: Recipe, shapes: dict[str, Shape]) -> Iterator[TrainingNeeds]:
    """Measure each training of a language model; those of image generators are left out.

    Args:
        shapes: model → its published shape.
    """
    for stage, config in recipe.stage_configs().items():
        for kind in ("sft", "rlvr", "algorithm"):
            options = getattr(config, kind, None)
            if options is None or options not in trainings(config):
                continue
            model = str(getattr(config, "student", None) or recipe.base_model)
            shape = shapes.get(model)
            if shape is None or "model_type" not in shape or "vq_config" in shape or shape["model_type"] == "clip":
                continue
            yield _needs(recipe, stage, kind, config, options, model, shape)


def calls_text(recipe: Recipe) -> str:
    """Calls and dollars of a run; empty if its rows cannot be counted here."""
    try:
        calls = estimate_calls(recipe, planned_items(recipe))
    except UserError:
        return ""
    dollars = sum(call.dollars for call in calls)
    return f"{sum(call.count for call in calls):,} calls, ${dollars:,.0f} by the prices in the recipe"


def _needs(
    recipe: Recipe,
    stage: str,
    kind: str,
    config: StageConfig,
    options: SupervisedConfig | PolicyConfig,
    model: str,
    shape: Shape,
) -> TrainingNeeds:
    placement = recipe.cluster.placement(stage) if recipe.cluster else None
    processes = PROCESSES if STAGES[stage].multi_process else 1
    if placement is not None:
        processes = placement.processes
    optimizer = options.optimizer
    rows, tokens, response = _step(options, processes)
    step = StepShape(
        rows=getattr(optimizer, "rows_per_pass", None) or rows,
        tokens=tokens,
        response=response,
        checkpointing=getattr(optimizer, "gradient_checkpointing", False),
        autocast=processes == 1 and optimizer.autocasts,
    )
    adapters = optimizer.adapters is not None
    per_parameter = 2 if adapters else optimizer.bytes_per_parameter
    memory = step_memory(shape, step, bytes_per_parameter=per_parameter, processes=1 if adapters else processes)
    tower = 0
    if not adapters and stage not in _TEXT_ONLY:
        pass_options = {"checkpointing": step.checkpointing, "autocast": step.autocast}
        tower = tower_activations(shape, images=step.rows, side=_SIDE, **pass_options) or 0
    return TrainingNeeds(
        stage, kind, model, memory.parameters, processes, memory.total + tower, memory.activations, tower,
        training_disk(options, memory.parameters), step.rows, step.tokens,
    )  # fmt: skip


def _step(options: SupervisedConfig | PolicyConfig, processes: int) -> tuple[int, int, int]:
    """Rows on each process, their tokens, and those of a response."""
    if isinstance(options, SupervisedConfig):
        return max(1, options.batch_size // processes), _PROMPT + _TEXT, _TEXT
    rollouts = options.rollouts
    response = int(getattr(rollouts, "max_new_tokens", 0))
    longest = getattr(getattr(rollouts, "vllm", None), "max_model_length", None)
    rows = max(1, rollouts.group_size * rollouts.prompts_per_step // processes)
    return rows, longest or _PROMPT + response, response
