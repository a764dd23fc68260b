"""Memory and disk that a recipe's models take: in training, by process, and in the workspace of each stage.

`--dry-run` shows them, and the compiled pipeline asks for the workspaces. A run on a claim (`pvc://`) is worked on in
place, so that its stages need no workspace.
"""

import math
import re
from pathlib import Path
from typing import NamedTuple

from rubricworks.environment import fill, names_in
from rubricworks.errors import UserError
from rubricworks.recipe.cluster import DEFAULT_WORKSPACE, ClusterConfig
from rubricworks.recipe.placement import StagePlacement
from rubricworks.recipe.recipe import Recipe
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.stage_table import STAGES
from rubricworks.training.config import ColocatedVllm, PolicyConfig, SupervisedConfig
from rubricworks.training.generators.config import DiffusionNftConfig
from rubricworks.training.generators.files import INDEX_FILE

BYTES_PER_PARAMETER = {"full": 18, "lora": 3}
"""Training memory without activations: bf16 weights and gradients, fp32 master weights and Adam; LoRA: weights."""

CPU_PARAMETERS = 50_000_000
"""Size up to which a student is trained without a GPU, unasked: a step of GRPO then takes seconds."""

_LARGE = 1_000_000_000
"""Parameters from which a model's own limit of tokens may not fit beside it."""
_TABLES = 10 << 30
"""Samples, tables and answers of a stage."""
_CHECKPOINTS = 3
"""Two are kept, and a third is written before the oldest is deleted."""
_ABOVE_NAME = 1.2
"""Parameters beyond those that a name states: Qwen2.5-VL-7B has 8.3e9, a LLaVA of Qwen2-7B and CLIP 7.9e9."""


class ModelSize(NamedTuple):
    """Parameters of a model: those of the part that is trained, and those beside it."""

    trained: int
    frozen: int = 0
    """Text encoders and VAE of a pipeline, codec of an autoregressive generator."""


_GENERATORS = {
    "flux.1-dev": ModelSize(11_900_000_000, 4_970_000_000),
    "flux.1-schnell": ModelSize(11_900_000_000, 4_970_000_000),
    "qwen-image": ModelSize(20_400_000_000, 8_420_000_000),
    "emu3-gen": ModelSize(8_490_000_000, 270_000_000),
}
"""Sizes of image generators whose names tell none, by the beginning of the name."""
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_BINARY_UNITS = {f"{unit}i": 1 << (10 * power) for power, unit in enumerate("KMGTPE", start=1)}


def process_memory(recipe: Recipe) -> list[str]:
    """Memory of each process of the trainings that a cluster shards over several accelerators."""
    lines = []
    for stage, config in recipe.stage_configs().items():
        if recipe.cluster is None or not STAGES[stage].multi_process:
            continue
        placement = recipe.cluster.placement(stage)
        processes = placement.processes
        options = trainings(config)[-1].optimizer if trainings(config) else None
        model = str(getattr(config, "student", None) or recipe.base_model)
        parameters = count_parameters(model)
        if processes < 2 or options is None or parameters is None:
            continue
        if (algorithm := diffusion_training(config)) is not None:
            copy = diffusion_bytes(model_size(model) or ModelSize(parameters), algorithm) / 2**30
            lines.append(
                f"  {stage} on {processes} accelerators: {copy:.1f} GiB each, a copy, with activations beside it"
            )
            continue
        if options.adapters:
            continue
        shards = 1 if "janus" in _filled(model).lower() else processes  # its parts are called one by one
        each = parameters * options.bytes_per_parameter / shards / 2**30
        read = parameters * (2 if options.weights == "bfloat16" else 4) / 2**30
        lines.append(
            f"  {stage} on {processes} accelerators: {each:.1f} GiB each, with activations and vLLM beside it; "
            f"{read:.0f} GiB of host memory for the process that reads the weights"
        )
    return lines


def trainings(config: StageConfig) -> list[SupervisedConfig | PolicyConfig]:
    """Options of the trainings that a stage runs, one after the other."""
    parts = [getattr(config, name, None) for name in ("sft", "rlvr", "algorithm")]
    return [part for part in parts if isinstance(part, SupervisedConfig | PolicyConfig)]


def colocate_warning(recipe: Recipe) -> str:
    """Warning with the trainings whose vLLM may find no room for one response; empty if there is none.

    Without `max_model_length` vLLM reserves memory for a response as long as the model allows, in the share of the GPU
    that `gpu_memory` leaves after the weights.
    """
    stages: dict[str, None] = {}
    for stage, config in recipe.stage_configs().items():
        for options in trainings(config):
            vllm = getattr(getattr(options, "rollouts", None), "vllm", None)
            if not isinstance(vllm, ColocatedVllm) or vllm.max_model_length is not None:
                continue
            student = str(getattr(config, "student", None) or recipe.base_model)
            parameters = count_parameters(student)
            if parameters is None or parameters >= _LARGE:
                weights = "of unknown size" if parameters is None else f"of {2 * parameters / 2**30:.0f} GiB"
                stages[f"{stage} ({student}, weights {weights}, gpu_memory {vllm.gpu_memory:g})"] = None
    if not stages:
        return ""
    return (
        f"vLLM may not start in {', '.join(stages)}: vllm.max_model_length is not set, and it must find memory for a "
        "response as long as the model allows, often 128,000 tokens; set it to the longest prompt, image tokens "
        "included, and max_new_tokens"
    )


def training_bytes(recipe: Recipe, student: str) -> int | None:
    """Estimate the GPU memory for weights, gradients and optimiser of a student; None if its size is unknown.

    Args:
        student: a folder or a Hub name, which tells the number of parameters.
    """
    size = model_size(student)
    if size is None:
        return None
    for config in recipe.stage_configs().values():
        if (algorithm := diffusion_training(config)) is not None:
            return diffusion_bytes(size, algorithm)
    return sum(size) * BYTES_PER_PARAMETER["lora" if recipe.lora else "full"]


def diffusion_training(config: StageConfig) -> DiffusionNftConfig | None:
    """Options of a stage that trains by DiffusionNFT, of which each process has a copy."""
    return next((options for options in trainings(config) if isinstance(options, DiffusionNftConfig)), None)


def diffusion_bytes(size: ModelSize, config: DiffusionNftConfig) -> int:
    """GPU memory of DiffusionNFT without activations: the forms of the trained part, what updates it, and the rest.

    Adapters share one transformer and take little themselves.
    """
    weights = 2 if config.optimizer.weights == "bfloat16" else 4
    if config.optimizer.adapters:
        return weights * (size.trained + size.frozen)
    forms = 3 if config.kl_weight else 2  # trained, sampling and initial
    update = 3  # gradient and Adam's two moments
    average = 0 if config.ema_decay is None else 4
    return size.trained * (weights * (forms + update) + average) + weights * size.frozen


def count_parameters(student: str) -> int | None:
    """Estimate the number of parameters from a folder's weights, or from the name; None if neither tells."""
    size = model_size(student)
    return None if size is None else sum(size)


def model_size(name: str) -> ModelSize | None:
    """Estimate the size of a model from a folder's weights, or from the name; None if neither tells.

    Args:
        name: may hold environment variables.
    """
    if name == "tiny":
        return ModelSize(700_000)
    name = _filled(name)
    folder = Path(name)
    if (folder / INDEX_FILE).is_file():
        of_parts = {path: path.stat().st_size // 2 for path in folder.glob("*/*.safetensors")}
        trained = sum(size for path, size in of_parts.items() if path.parent.name == "transformer")
        return ModelSize(trained, sum(of_parts.values()) - trained)
    if weights := list(folder.glob("*.safetensors")):
        return ModelSize(sum(path.stat().st_size for path in weights) // 2)
    plain = name.partition("@")[0]
    last = plain.rstrip("/").rpartition("/")[2].lower()
    for known, size in _GENERATORS.items():
        if last.startswith(known):
            return size
    for part in reversed(plain.replace("_", "-").split("-")):
        if part[:-1].replace(".", "", 1).isdigit() and part[-1] in "Bb":
            return ModelSize(int(float(part[:-1]) * 1e9))
    return None


def _filled(name: str) -> str:
    """Name with its environment variables, as far as they are set."""
    try:
        return fill(name, "the model") if names_in(name) else name
    except UserError:
        return name


def stage_disk(recipe: Recipe) -> dict[str, int]:
    """Stage → bytes that its files take; empty where runs lie on a claim, and for a retraining whose champion is not
    found.
    """
    cluster = recipe.cluster
    if cluster is None or cluster.runs_claim() is not None:
        return {}
    try:
        configs, base_model = recipe.sized_stages()
    except UserError:
        return {}
    sizes = {stage: _parameters(base_model, config) for stage, config in configs.items()}
    saved = {
        stage: sum(map(saved_models, trained)) * sizes[stage]
        for stage, config in configs.items()
        if (trained := trainings(config))
    }
    largest = max(saved.values(), default=0)
    policy = max((size for stage, size in saved.items() if STAGES[stage].multi_node), default=largest)
    start = saved.get("warm_up", 2 * sizes["warm_up"]) if "warm_up" in sizes else largest
    read = {"model": start, "policy": policy, "peer": policy}
    disk = {}
    for stage, config in configs.items():
        written = sum(training_disk(options, sizes[stage]) for options in trainings(config))
        if stage in ("warm_up", "pretrain_generator") and not written:
            written = read["model"]  # a copy of the student or generator
        if stage == "fetch_champion":
            written = policy
        disk[stage] = _TABLES + written + sum(read.get(name, 0) for name in STAGES[stage].inputs)
    return disk


def training_disk(options: SupervisedConfig | PolicyConfig, parameters: int) -> int:
    """Bytes of a training's checkpoints, its model and its milestones.

    A checkpoint holds the weights twice, as FSDP's own file and as a model or as DiffusionNFT's two forms, and Adam's
    two moments; one of LoRA holds little. The model and the milestones are saved in the precision of the arithmetic.
    """
    state = options.optimizer.bytes_per_parameter
    if isinstance(options, DiffusionNftConfig) and options.ema_decay is not None:
        state += 4  # the average that is saved
    checkpoints = 0 if options.optimizer.adapters else _CHECKPOINTS * state
    return parameters * (checkpoints + saved_models(options))


def saved_models(options: SupervisedConfig | PolicyConfig) -> int:
    """Bytes of a parameter in the model and the milestones that a training leaves."""
    every = getattr(options, "milestone_every", 0)
    models = 1 + (options.steps // every if every and options.steps else 0)
    return models * (2 if options.optimizer.saves_bfloat16 else 4)


def planned_workspaces(recipe: Recipe) -> dict[str, str]:
    """Stage → workspace that its files take, as Kubernetes writes it, where the recipe sets none and the default is
    too small.
    """
    return {
        stage: gibibytes(need)
        for stage, need in stage_disk(recipe).items()
        if need > size_bytes(DEFAULT_WORKSPACE) and _workspace(recipe, stage) is None
    }


def with_planned_workspaces(recipe: Recipe, cluster: ClusterConfig) -> ClusterConfig:
    """The cluster section with a workspace for each stage whose files the default would not hold."""
    own = {
        stage: cluster.stages.get(stage, StagePlacement()).model_copy(update={"workspace": size})
        for stage, size in planned_workspaces(recipe).items()
    }
    return cluster.model_copy(update={"stages": cluster.stages | own})


def workspace_lines(recipe: Recipe) -> list[str]:
    """Workspaces for `--dry-run`; empty if the default holds all files of every stage."""
    large = {stage: need for stage, need in stage_disk(recipe).items() if need > size_bytes(DEFAULT_WORKSPACE)}
    if not large:
        return []
    sizes = {stage: _workspace(recipe, stage) or gibibytes(need) for stage, need in large.items()}
    needs = [f"{stage} {size} for about {gibibytes(large[stage])}" for stage, size in sizes.items()]
    warning = workspace_warning(recipe)
    return [f"workspaces: {', '.join(needs)} of files", *([f"warning: {warning}"] if warning else [])]


def workspace_warning(recipe: Recipe) -> str:
    """Warning with the stages whose workspace, as the recipe sets it, is too small, or that nothing sizes; empty if
    there is none.
    """
    cluster = recipe.cluster
    if cluster is not None and cluster.runs_claim() is None and cluster.workspace.size is None:
        try:
            recipe.sized_stages()
        except UserError as error:
            return f"workspaces have {DEFAULT_WORKSPACE}: {error}; set cluster.workspace.size if its models are large"
    if unknown := _unsized_trainings(recipe):
        return (
            f"{', '.join(unknown)} may not fit into {DEFAULT_WORKSPACE}: nothing tells the size of "
            f"{recipe.base_model}; set cluster.workspace.size to three checkpoints, up to 48 bytes "
            "a parameter, and the model"
        )
    small = [
        f"{stage} takes about {gibibytes(need)} and has {size}"
        for stage, need in stage_disk(recipe).items()
        if (size := _workspace(recipe, stage)) and size_bytes(size) < need
    ]
    if not small:
        return ""
    return f"workspaces that will fill up: {'; '.join(small)}: raise cluster.workspace.size, or leave it out"


def _unsized_trainings(recipe: Recipe) -> list[str]:
    """Stages that train a model of unknown size in a workspace of the default size."""
    if recipe.cluster is None or recipe.cluster.runs_claim() is not None:
        return []
    try:
        configs, base_model = recipe.sized_stages()
    except UserError:
        return []
    return [
        stage
        for stage, config in configs.items()
        if trainings(config) and not _parameters(base_model, config) and _workspace(recipe, stage) is None
    ]


def size_bytes(size: str) -> int:
    """Bytes of a size such as 50Gi."""
    number, unit = re.fullmatch(r"(\d+)(\w*)", size).groups()  # type: ignore[union-attr]
    return int(number) * (_UNITS | _BINARY_UNITS)[unit]


def gibibytes(count: int) -> str:
    """A number of bytes as Kubernetes writes it, rounded up."""
    return f"{math.ceil(count / (1 << 30))}Gi"


def _workspace(recipe: Recipe, stage: str) -> str | None:
    """Size of a stage's workspace, if the recipe sets one."""
    cluster = recipe.cluster
    return None if cluster is None else cluster.placement(stage).workspace or cluster.workspace.size


def _parameters(base_model: str | None, config: StageConfig) -> int:
    """Upper estimate of the parameters of the model that a stage trains; 0 if nothing tells its size."""
    return math.ceil(_ABOVE_NAME * (count_parameters(str(getattr(config, "student", None) or base_model)) or 0))
