"""Models under evaluation: a model directory, an endpoint, or a file of responses that were made elsewhere."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, model_validator

from rubricworks.llm import ImageEndpoint

Decoding = Literal["greedy", "sampled"]


class ModelSource(BaseModel, extra="forbid", frozen=True):
    """Origin of a model's responses: one of `folder`, `endpoint` and `responses`."""

    folder: str | None = None
    """Model directory, or a name on the Hub, with its commit: org/name@COMMIT."""
    endpoint: ImageEndpoint | None = None
    """Decodes at its own `temperature`."""
    responses: str | None = None
    """JSON lines or Parquet with `sample_id` and `response`, or a `responses` table."""
    model: str | None = None
    """Model to take from a `responses` table of several."""
    revision: str = ""
    """Digest of its files; responses of another revision are not mixed in."""

    @model_validator(mode="after")
    def _one_origin(self) -> "ModelSource":
        if sum(field is not None for field in (self.folder, self.endpoint, self.responses)) != 1:
            raise ValueError("give one of folder, endpoint and responses")
        if self.model is not None and self.responses is None:
            raise ValueError("model chooses among the models of a responses table; give responses too")
        return self


class EvaluatedModel(BaseModel, extra="forbid", frozen=True):
    """One row's worth of a scoreboard: a model, at one step of its training, with one decoding."""

    name: str = Field(min_length=1)
    source: ModelSource
    revision: str = ""
    """Digest of its weights, or the endpoint's revision."""
    step: int | None = None
    decoding: Decoding = "greedy"

    def columns(self) -> dict[str, str | int | None]:
        """Columns of the tables `responses` and `scores` that name the model."""
        return {"model": self.name, "revision": self.revision, "step": self.step, "decoding": self.decoding}

    @property
    def folder(self) -> Path | None:
        return Path(self.source.folder) if self.source.folder else None
