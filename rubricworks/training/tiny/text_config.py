"""The shape of the laptop's text student; free of torch, so that a recipe is checked before anything heavy loads."""

from pydantic import BaseModel, ConfigDict, Field, model_validator


class TinyTextConfig(BaseModel):
    """The defaults give about 0.4 million parameters over a vocabulary of seven hundred pieces."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    hidden: int = Field(128, ge=16)
    layers: int = Field(2, ge=1)
    """Copying out of the prompt takes two: one attends to what stood before a piece, the next to what came after it."""
    heads: int = Field(4, ge=1)
    intermediate: int = Field(256, ge=16)
    rope_theta: float = Field(10_000.0, gt=1)
    initializer_range: float = Field(0.1, gt=0)
    """With the usual 0.02 copying is learnt twice as late."""
    max_tokens: int = Field(2048, ge=64)

    @model_validator(mode="after")
    def _heads_fit(self) -> "TinyTextConfig":
        if self.hidden % (2 * self.heads):
            raise ValueError("hidden must be a multiple of 2 x heads")
        return self
