"""Shape of the laptop's text student; imports no torch, so that a recipe is validated before anything heavy loads."""

from pydantic import BaseModel, ConfigDict, Field, model_validator


class TinyTextConfig(BaseModel):
    """Shape of the text student; the defaults give about 0.4 million parameters with a vocabulary of 700 pieces."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    hidden: int = Field(128, ge=16)
    layers: int = Field(2, ge=1)
    """Copying from the prompt needs two layers: one attends to the piece before a match, the next to the one after."""
    heads: int = Field(4, ge=1)
    intermediate: int = Field(256, ge=16)
    rope_theta: float = Field(10_000.0, gt=1)
    initializer_range: float = Field(0.1, gt=0)
    """With the usual 0.02, copying takes twice as long to learn."""
    max_tokens: int = Field(2048, ge=64)

    @model_validator(mode="after")
    def _heads_fit(self) -> "TinyTextConfig":
        if self.hidden % (2 * self.heads):
            raise ValueError("hidden must be a multiple of 2 x heads")
        return self
