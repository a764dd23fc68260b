"""Training settings; imports no torch, so that a recipe is validated before anything heavy loads."""

import math
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rubricworks.llm import ImageEndpoint

Precision = Literal["float32", "bfloat16", "mixed"]


class _Options(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class TinyConfig(_Options):
    """Shape of the laptop student; the defaults give 0.7 million parameters and 9 image tokens per 96 x 96 image."""

    hidden: int = Field(128, ge=16)
    layers: int = Field(2, ge=1)
    heads: int = Field(4, ge=1)
    intermediate: int = Field(256, ge=16)
    vision_hidden: int = Field(96, ge=16)
    vision_heads: int = Field(4, ge=1)
    vision_depth: int = Field(1, ge=1)
    patch: int = Field(16, ge=4)
    merge: int = Field(2, ge=1)
    image_side: int = Field(96, ge=32)
    """Larger images are scaled down to about this many pixels squared."""
    initializer_range: float = Field(0.08, gt=0)
    max_tokens: int = Field(512, ge=64)

    @model_validator(mode="after")
    def _shapes_fit(self) -> "TinyConfig":
        if self.hidden % (2 * self.heads) or self.vision_hidden % (4 * self.vision_heads):
            raise ValueError("hidden must be a multiple of 2 x heads, and vision_hidden of 4 x vision_heads")
        if self.image_side % (self.patch * self.merge):
            raise ValueError(f"image_side {self.image_side} is not a multiple of patch x merge")
        return self


class LoraOptions(_Options):
    """Low-rank adapters on the linear layers (Hu et al., 2021); the rest of the model is frozen."""

    rank: int = Field(16, ge=1)
    """Rank of the adapters."""
    alpha: int = Field(32, ge=1)
    """Scale of the adapters: alpha / rank."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout of the adapters."""
    targets: Literal["all-linear"] | tuple[str, ...] = "all-linear"
    """Layer names, or every linear layer but the head that writes tokens."""


class AdamW(_Options):
    """AdamW and its schedule; the defaults are the laptop's."""

    learning_rate: float = Field(1.5e-4, gt=0)
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup: float = Field(0.0, ge=0, lt=1)
    """Share of the steps over which the learning rate rises."""
    weight_decay: float = Field(0.0, ge=0)
    max_grad_norm: float = Field(1.0, gt=0)
    betas: tuple[float, float] = (0.9, 0.999)

    @property
    def adapters(self) -> LoraOptions | None:
        """Adapters that are trained; None trains all weights."""
        return None

    @property
    def arithmetic(self) -> Precision:
        """Precision of weights and arithmetic."""
        return "float32"

    @property
    def weights(self) -> Literal["float32", "bfloat16"]:
        """Precision of the weights that are loaded."""
        return "bfloat16" if self.arithmetic == "bfloat16" else "float32"

    @property
    def saves_bfloat16(self) -> bool:
        """True if models are computed and saved in bfloat16."""
        return self.arithmetic != "float32"

    @property
    def autocasts(self) -> bool:
        """True if float32 weights, or adapters, are trained with bfloat16 arithmetic."""
        return self.arithmetic == "mixed" or (self.arithmetic == "bfloat16" and self.adapters is not None)

    @property
    def bytes_per_parameter(self) -> int:
        """Bytes of a parameter with its gradient and Adam's two moments, all in the precision of the weights."""
        return 8 if self.arithmetic == "bfloat16" else 16


class Optimizer(AdamW):
    """AdamW, and the precision and memory of an update."""

    precision: Precision = "float32"
    """`bfloat16`: weights, arithmetic and saved models. `mixed`: the same with float32 weights, 16 bytes a parameter
    with gradient and Adam's state instead of 8. In bfloat16 an update below 1/256 of a weight is lost, so learning
    rates of 1e-5 and less need `mixed`.
    """
    gradient_checkpointing: bool = False
    rows_per_pass: int | None = Field(None, ge=1)
    """Rows per forward pass on each process when a step's do not fit in memory; must divide them."""

    @property
    def arithmetic(self) -> Precision:
        return self.precision


class LoraOptimizer(Optimizer):
    """Optimizer of all weights, or of adapters."""

    lora: LoraOptions | None = None
    """Train adapters of this shape; all weights by default."""

    @property
    def adapters(self) -> LoraOptions | None:
        return self.lora


class SupervisedAdamW(AdamW):
    """AdamW with the defaults of supervised training."""

    learning_rate: float = Field(3e-3, gt=0)
    schedule: Literal["constant", "linear", "cosine"] = "cosine"
    warmup: float = Field(0.05, ge=0, lt=1)


class ImageSftOptimizer(SupervisedAdamW, Optimizer):
    """Optimizer of an image generator's supervised training."""


class SftOptimizer(SupervisedAdamW, LoraOptimizer):
    """Optimizer of supervised training."""


class SupervisedConfig(_Options):
    """Settings of supervised training; the defaults are the laptop's."""

    steps: int = Field(500, ge=1)
    batch_size: int = Field(64, ge=1)
    """Examples per optimizer step, over all processes; several fill an epoch's last step with rows of its first."""
    optimizer: SupervisedAdamW = SupervisedAdamW()
    save_every: int = Field(100, ge=1)
    log_every: int = Field(25, ge=1)


class SftConfig(SupervisedConfig):
    """Settings of supervised training of a model that writes text."""

    optimizer: SftOptimizer = SftOptimizer()
    epochs: float | None = Field(None, gt=0)
    """Passes over the examples, instead of steps."""

    def steps_on(self, examples: int) -> int:
        """Number of optimizer steps for a number of examples."""
        return self.steps if self.epochs is None else max(1, math.ceil(self.epochs * examples / self.batch_size))


class TinyLlavaConfig(_Options):
    """Shape of a laptop LLaVA: a CLIP vision tower and a Qwen2 language model, 0.8 million parameters together."""

    hidden: int = Field(128, ge=16)
    layers: int = Field(2, ge=1)
    heads: int = Field(4, ge=1)
    intermediate: int = Field(256, ge=16)
    vision_hidden: int = Field(96, ge=16)
    vision_heads: int = Field(4, ge=1)
    vision_layers: int = Field(1, ge=1)
    patch: int = Field(32, ge=4)
    image_side: int = Field(96, ge=32)
    initializer_range: float = Field(0.08, gt=0)
    max_tokens: int = Field(512, ge=64)

    @model_validator(mode="after")
    def _shapes_fit(self) -> "TinyLlavaConfig":
        if self.hidden % (2 * self.heads) or self.vision_hidden % self.vision_heads:
            raise ValueError("hidden must be a multiple of 2 x heads, and vision_hidden of vision_heads")
        if self.image_side % self.patch:
            raise ValueError(f"image_side {self.image_side} is not a multiple of patch")
        return self


class VlmConfig(SftConfig):
    """Settings of a stage of VLM pretraining; the defaults are the laptop's."""

    vision_learning_rate: float | None = Field(None, gt=0)
    """Learning rate of the vision tower, if it differs from the rest."""


class _Vllm(_Options):
    max_model_length: int | None = Field(None, ge=1)
    """Tokens of a prompt and its response. By default the model's own limit, often 128,000: for one response of that
    length vLLM must find memory, and does not start where `gpu_memory` leaves none.
    """
    correction: Literal["none", "token_truncate", "token_mask", "sequence_truncate", "sequence_mask"] = "sequence_mask"
    """Weight of the loss by the ratio of the trainer's probabilities to vLLM's, of each token or of whole responses;
    ratios beyond the bounds are cut to them, or their loss is 0 [vllm_importance_sampling_mode].
    """
    correction_max: float | None = Field(3.0, gt=0)
    """Upper bound of the ratio; null = none."""
    correction_min: float | None = Field(None, gt=0)
    """Bounds of the ratio; null = none."""
    max_logp_difference: float | None = Field(0.1, gt=0)
    """Stop a training whose sampler and trainer differ by more nats a token, on average, for five steps; null = never.
    Same weights in other kernels differ by 0.001 to 0.03.
    """


class ColocatedVllm(_Vllm):
    """vLLM on the GPUs of the training."""

    mode: Literal["colocate"]
    """vLLM on the GPUs of the training."""
    gpu_memory: float = Field(0.3, gt=0, lt=1)
    """Share of GPU memory for vLLM."""
    tensor_parallel: int = Field(1, ge=1)
    """GPUs that share the model."""
    sleep: bool = False
    """Free vLLM's memory during the update."""


class VllmServer(_Vllm):
    """A remote vLLM server."""

    mode: Literal["server"]
    """A vLLM server elsewhere."""
    url: str = "http://127.0.0.1:8000"
    """Address of `vllm serve`; a TrainJob with `rollouts` starts its own (docs/multi-node.md)."""


VllmOptions = Annotated[ColocatedVllm | VllmServer, Field(discriminator="mode")]


class EngineOptions(_Options):
    """Options of the engine that generates a model's texts outside of training."""

    kind: Literal["generate", "vllm"] = "generate"
    """`generate` of Transformers, one batch after the other, or vLLM, which takes all prompts of a shard at once."""
    gpu_memory: float = Field(0.9, gt=0, lt=1)
    """Share of GPU memory, for vllm."""
    tensor_parallel: int = Field(1, ge=1)
    """GPUs that share the model, for vllm."""
    max_model_length: int | None = Field(None, ge=1)
    """Maximum tokens of a prompt with its answer, for vllm. None uses the model's own limit, which may exceed the
    memory.
    """

    @property
    def accelerators(self) -> int:
        """Accelerators that one engine takes."""
        return self.tensor_parallel if self.kind == "vllm" else 1


class ProbeOptions(_Options):
    """Held-out probe: a judge scores the current policy on held-out samples every so many steps, for the alarm."""

    judge: ImageEndpoint
    """The judge should be of a different model family than the rewarding judge. Captions: compares them with those of
    the base, pairwise. Images: grades them by the prompt's rubric.
    """
    every: int = Field(10, ge=1)
    """Steps between two calls of the probe, at each of which the alarm looks; it can fire from the third on."""
    samples: int = Field(64, ge=2)
    """Held-out samples of a probe."""


class Watch(_Options):
    """Monitoring of a policy training, by the reward-hacking alarm (`rubricworks.training.policy.alarm`)."""

    on_alarm: Literal["warn", "stop", "roll_back"] = "warn"
    """Log the alarm and continue; stop the training; or stop it and return the policy of its best probe."""
    probe: ProbeOptions | None = None
    """Held-out probe of the alarm; none by default."""

    @model_validator(mode="after")
    def _knows_where_to_go_back(self) -> Self:
        if self.on_alarm == "roll_back" and self.probe is None:
            raise ValueError("on_alarm is roll_back, and no probe tells where the policy was at its best; give a probe")
        return self


class UnprobedWatch(Watch):
    """Monitoring of a training that has no held-out probe."""

    probe: None = None
    """Not available here."""


class SelectionOptions(_Options):
    """Rollouts of a group that a step trains on (RubricRL, section 3.4): `group_size` are drawn, `keep` are kept."""

    keep: int = Field(4, ge=2)
    """Rollouts of a group to train on."""
    strategy: Literal["hybrid", "ffkc_1d", "vanilla"] = "hybrid"
    """The best and random others; diverse rewards; the first ones drawn."""
    top: int | None = Field(None, ge=0)
    """Rollouts that `hybrid` keeps by reward; half of them by default."""
    normalise: Literal["kept", "all"] = "kept"
    """Rollouts whose mean and deviation give the advantages: the kept ones (LN), or all that were drawn (GN)."""


class RefillOptions(_Options):
    """Replaces prompts whose rollouts all pass, all fail or earn the same reward (DAPO, section 3.2)."""

    rounds: int = Field(3, ge=1)
    """Draws of other prompts in a step; a group that is still missing after them is not trained on."""
    criterion: str | None = Field(None, min_length=1)
    """Key, or title, of the criteria that a rollout passes or fails, for rewards from rubrics. By default the reward
    decides: a prompt whose rollouts all earn the same, all 1 or more, or all 0 or less, gives way. A shaped reward
    seldom is 0, so that its failures stay where they differ.
    """


_LARGEST_GROUP = 1024


class Rollouts(_Options):
    """Sampling of the responses that a step is trained on."""

    group_size: int = 8
    """Rollouts of one sample, from 2 to 1024 [num_generations]."""
    prompts_per_step: int = Field(8, ge=1)
    """Prompts of an optimizer step, each with `group_size` rollouts."""

    @model_validator(mode="after")
    def _is_a_group(self) -> Self:
        if self.group_size < 2:
            raise ValueError(f"group_size is {self.group_size}; a group needs at least 2 rollouts")
        if self.group_size > _LARGEST_GROUP:
            raise ValueError(f"group_size is above {_LARGEST_GROUP}; a step samples whole groups at once")
        return self


class TextRollouts(Rollouts):
    """Sampling of captions and answers."""

    max_new_tokens: int = Field(44, ge=1)
    temperature: float = Field(1.0, gt=0)
    top_p: float = Field(1.0, gt=0, le=1)
    mask_truncated: bool = False
    """Exclude rollouts that reach max_new_tokens from the loss."""
    vllm: VllmOptions | None = None
    """Sampler of the rollouts; by default the trainer itself."""

    @model_validator(mode="after")
    def _prompt_has_room(self) -> Self:
        if self.vllm and self.vllm.max_model_length and self.vllm.max_model_length <= self.max_new_tokens:
            raise ValueError(
                f"vllm.max_model_length {self.vllm.max_model_length} is prompt and response together, and leaves no "
                f"room for a prompt beside max_new_tokens {self.max_new_tokens}"
            )
        return self


class CodeRollouts(Rollouts):
    """Sampling of an autoregressive generator's images."""

    temperature: float = Field(1.0, gt=0)
    guidance: float = Field(1.0, ge=0)
    """Classifier-free guidance; 1 is none, as in RubricRL."""


class PolicyConfig(_Options):
    """Settings of a policy training, whatever its algorithm."""

    steps: int | None = Field(200, ge=1)
    epochs: float | None = Field(None, gt=0)
    """Passes over the samples, instead of steps."""
    rollouts: Rollouts
    optimizer: Optimizer
    num_iterations: int = Field(1, ge=1)
    """Passes over each generation's rollouts. From the second update on the policy is no longer the one that drew them,
    and epsilon and delta act; with 1 of these and of steps_per_generation no ratio is ever clipped [num_iterations].
    """
    steps_per_generation: int = Field(1, ge=1)
    """Optimizer steps that one generation feeds, with prompts_per_step prompts each [steps_per_generation, in steps of
    the optimizer].
    """
    selection: SelectionOptions | None = None
    """Train on some of each group's rollouts; on all by default."""
    refill: RefillOptions | None = None
    """Replace prompts whose rollouts all pass, all fail or earn the same reward. Off by default."""
    watch: Watch = Watch()
    """Reward-hacking alarm."""
    save_every: int = Field(50, ge=1)
    """Steps between two checkpoints, rounded up to whole generations."""
    log_every: int = Field(10, ge=1)

    @model_validator(mode="before")
    @classmethod
    def _epochs_take_the_place_of_steps(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("epochs") is not None and "steps" not in data:
            return {**data, "steps": None}
        return data

    @model_validator(mode="after")
    def _sizes_fit(self) -> Self:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give either steps or epochs (set the other one to null)")
        group_size, prompts = self.rollouts.group_size, self.rollouts.prompts_per_step
        if self.selection and self.selection.keep > group_size:
            raise ValueError(f"selection.keep is {self.selection.keep}; of group_size {group_size} at most all")
        if self.selection and (self.selection.top or 0) > self.selection.keep:
            raise ValueError(f"selection.top is {self.selection.top}; it is at most keep, {self.selection.keep}")
        rows = self.optimizer.rows_per_pass
        if rows is None:
            return self
        passes, remainder = divmod(group_size * prompts, rows)
        if remainder:
            raise ValueError(f"rows_per_pass {rows} does not divide the {group_size * prompts} rollouts of a step")
        if self.selection and (self.selection.keep * prompts) % passes:
            raise ValueError(
                f"rows_per_pass {rows} makes {passes} passes of a step, which do not share its "
                f"{self.selection.keep * prompts} kept rollouts evenly; choose another rows_per_pass or selection.keep"
            )
        return self

    @property
    def generation_every(self) -> int:
        """Optimizer steps from one generation to the next."""
        return self.num_iterations * self.steps_per_generation

    @property
    def checkpoint_every(self) -> int:
        """Steps between two checkpoints. They lie between generations, whose rollouts no checkpoint holds."""
        return -(-self.save_every // self.generation_every) * self.generation_every

    def steps_on(self, samples: int) -> int:
        """Number of optimizer steps for a number of samples."""
        epoch = samples * self.num_iterations / self.rollouts.prompts_per_step
        return self.steps or math.ceil((self.epochs or 0) * epoch)

    def rollouts_on(self, samples: int) -> int:
        """Number of rollouts of a training for a number of samples."""
        generations = -(-self.steps_on(samples) // self.generation_every)
        return generations * self.steps_per_generation * self.rollouts.prompts_per_step * self.rollouts.group_size


class GrpoConfig(PolicyConfig):
    """GRPO as TRL implements it. Names in brackets are TRL's."""

    loss: Literal["grpo", "dr_grpo", "dapo", "bnpo", "group_token_mean"] = "dr_grpo"
    """A TRL loss, or `group_token_mean`: token mean within each group, equal weight per group (RLR³, equation 1)
    [loss_type].
    """
    advantages: Literal["group", "batch", "centred", "c-gdpo"] = "group"
    """Centred rewards, divided by the standard deviation of the group or the batch, or by none [scale_rewards]. With
    several rewards these add them by weight first; `c-gdpo` normalises each in its group, adds them by weight and
    normalises in the batch (GDPO; BalCapRL, 2.4-2.6) [multi_objective_aggregation].
    """
    beta: float = Field(0.0, ge=0)
    """Weight of the KL penalty against the starting model."""
    epsilon: float = Field(0.2, gt=0)
    """Clip range of the ratio [epsilon]."""
    epsilon_high: float | None = Field(None, gt=0)
    """Upper clip range; `epsilon` by default [epsilon_high]."""
    delta: float | None = Field(None, gt=1)
    """Upper bound of the ratio for negative advantages (dual clip)."""
    importance_level: Literal["token", "sequence"] = "token"
    """Ratio per token (GRPO), or per response (GSPO) [importance_sampling_level]."""

    @model_validator(mode="after")
    def _mean_over_groups_weighs_tokens_alike(self) -> Self:
        if self.loss != "group_token_mean":
            return self
        if self.beta:
            raise ValueError("loss group_token_mean has no KL penalty (RLR³, equation 1); set beta to 0")
        vllm = getattr(self.rollouts, "vllm", None)
        if vllm and "sequence" in vllm.correction:
            raise ValueError(
                "loss group_token_mean weighs every token of a group alike (RLR³, equation 1), and "
                f"vllm.correction {vllm.correction} weighs whole responses; set it to none, token_truncate or "
                "token_mask"
            )
        return self


class TextGrpoConfig(GrpoConfig):
    """GRPO of a model that writes captions or answers; the defaults are the laptop student's."""

    rollouts: TextRollouts = TextRollouts()
    optimizer: LoraOptimizer = LoraOptimizer()
    milestone_every: int = Field(0, ge=0)
    """Steps between two copies of the policy that are kept for evaluation; 0 = none."""

    @model_validator(mode="after")
    def _milestones_are_whole_models(self) -> Self:
        if self.milestone_every and self.optimizer.lora:
            raise ValueError("milestone_every keeps whole models; with lora set it to 0, or train all weights")
        return self


class UnprobedGrpoConfig(TextGrpoConfig):
    """GRPO of a model that no held-out probe judges: it answers questions, or grades."""

    watch: UnprobedWatch = UnprobedWatch()


class CodeGrpoConfig(GrpoConfig):
    """GRPO of an autoregressive image generator."""

    rollouts: CodeRollouts = CodeRollouts()
    optimizer: Optimizer = Optimizer()
