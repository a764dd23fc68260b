"""Settings of tiny generators; imports no torch, so that a recipe is validated before anything heavy loads."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rubricworks.training.config import ImageSftOptimizer, LoraOptimizer, PolicyConfig, Rollouts, SupervisedConfig


class TinyArConfig(BaseModel):
    """Shape of the generator and its pretraining; the defaults give 0.7 million parameters."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hidden: int = Field(128, ge=16)
    layers: int = Field(3, ge=1)
    heads: int = Field(4, ge=1)
    intermediate: int = Field(384, ge=16)
    patch: int = Field(6, ge=1)
    """Side of a patch in pixels."""
    codes: int = Field(512, ge=2)
    """Codes at most."""
    initializer_range: float = Field(0.08, gt=0)
    """With the usual 0.02 the prompt's words are learned late."""
    max_prompt_tokens: int = Field(64, ge=4)
    steps: int = Field(600, ge=1)
    batch_size: int = Field(64, ge=1)
    learning_rate: float = Field(2e-3, gt=0)
    unconditional: float = Field(0.1, ge=0, lt=1)
    """Share of captions that are left out."""
    save_every: int = Field(200, ge=1)


class TinyFlowConfig(BaseModel):
    """Shape of the flow-matching generator and its pretraining; the defaults give 2 million parameters."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hidden: int = Field(128, ge=24)
    layers: int = Field(3, ge=1)
    heads: int = Field(4, ge=1)
    text_layers: int = Field(1, ge=0)
    """Layers of the text encoder; with 0, words are only embedded."""
    patch: int = Field(12, ge=1)
    """Side of a patch in pixels. A grid of patches that cuts objects is learned several times slower."""
    latent: int | None = Field(None, ge=1)
    """Numbers in a patch's code, its principal components; null = the pixels themselves."""
    initializer_range: float = Field(0.08, gt=0)
    max_prompt_tokens: int = Field(64, ge=4)
    sampling_steps: int = Field(8, ge=1)
    shift: float = Field(3.0, ge=1)
    """Share of the noise levels spent at high noise, where the content of the image is decided."""
    steps: int = Field(1200, ge=1)
    batch_size: int = Field(64, ge=1)
    learning_rate: float = Field(1e-3, gt=0)
    unconditional: float = Field(0.1, ge=0, lt=1)
    """Share of captions that are left out."""
    save_every: int = Field(200, ge=1)


class ImageSampling(BaseModel):
    """Sampling of a flow-matching generator; null is the generator's own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: int | None = Field(None, ge=1)
    """Evaluations of the velocity."""
    side: int | None = Field(None, ge=8)
    """Height and width in pixels."""


class ImageSftConfig(SupervisedConfig):
    """Settings of supervised training of an image generator."""

    optimizer: ImageSftOptimizer = ImageSftOptimizer()
    sampling: ImageSampling = ImageSampling()
    """Size of a flow-matching generator's images, and how it draws them; its own by default."""

    @model_validator(mode="after")
    def _passes_are_whole(self) -> Self:
        rows = self.optimizer.rows_per_pass
        if rows is not None and self.batch_size % rows:
            raise ValueError(f"rows_per_pass {rows} does not divide batch_size {self.batch_size}; make it a divisor")
        return self


class DiffusionRollouts(Rollouts):
    """Sampling of a flow-matching generator's images."""

    guidance: float = Field(1.0, ge=0)
    """Scale of the guidance; 1 is none, as in RubricRL. FLUX reads it as an input."""
    sampling: ImageSampling = ImageSampling()
    """Sampler of the images."""


class DiffusionNftOptimizer(LoraOptimizer):
    """Optimizer of DiffusionNFT, with its authors' weight decay."""

    weight_decay: float = Field(1e-4, ge=0)


class DiffusionNftConfig(PolicyConfig):
    """DiffusionNFT; the defaults are those of its authors' code (NVlabs/DiffusionNFT)."""

    rollouts: DiffusionRollouts = DiffusionRollouts()
    optimizer: DiffusionNftOptimizer = DiffusionNftOptimizer()
    advantages: Literal["group", "batch"] = "group"
    """Standard deviation that divides the centred rewards: of the prompt's images, or of all."""
    beta: float = Field(1.0, gt=0)
    """Distance of the implicit positive and negative policy from the sampling policy."""
    clip: float = Field(5.0, gt=0)
    """Advantage at which an image counts as optimal (Z in RubricRL, equation 8)."""
    kl_weight: float = Field(1e-4, ge=0)
    """Weight of the distance to the initial velocity."""
    form: Literal["x0", "velocity"] = "x0"
    """Target of the loss: the clean image, as in the authors' code, or the velocity (RubricRL, equation 10)."""
    levels: Literal["sampled", "stratified"] = "sampled"
    """Noise levels to train at: those of the sampling, or one of each stratum of (0, 1], more of them near noise."""
    levels_per_image: int | None = Field(None, ge=1)
    """Noise levels per image and update; as many as the sampling has by default."""
    decay_rate: float = Field(0.001, ge=0)
    """Decay of the sampling policy's moving average, per update, up to `decay_cap`."""
    decay_cap: float = Field(0.5, ge=0, lt=1)
    """Largest decay of the sampling policy."""
    decay_start: int = Field(0, ge=0)
    """Updates during which the sampling policy is the trained one."""
    ema_decay: float | None = Field(0.9, ge=0, lt=1)
    """Decay of the moving average of the trained weights, which is the model that is saved, after a warm-up; null saves
    the last weights.
    """

    def decay_at(self, step: int) -> float:
        """Decay after a number of updates (RubricRL, equation 11)."""
        return min(max(step - self.decay_start, 0) * self.decay_rate, self.decay_cap)
