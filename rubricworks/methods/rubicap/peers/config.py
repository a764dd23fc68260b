"""Settings of RubiCap's baselines (sections 4 and 4.4); a recipe names one by `policy.peer`."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from rubricworks.llm import Endpoint, ImageEndpoint
from rubricworks.training.config import EngineOptions, SftConfig


class _Peer(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class SupervisedPeer(_Peer):
    """Supervised distillation: training on captions of experts, or of a stronger model."""

    kind: Literal["sft"]
    captioner: ImageEndpoint | None = None
    """Model whose captions are learnt; those of a committee's teacher are not asked for again. By default the captions
    that came with the images."""
    sft: SftConfig = SftConfig()


class RewritingPeer(_Peer):
    """Rubric-augmented SFT: the student rewrites its captions until they meet the rubric, and is trained on them."""

    kind: Literal["rubric_sft"]
    attempts: int = Field(default=4, ge=1)
    """Rewritings of one caption at most; of several captions that miss a criterion, the best is learnt."""
    follows_instructions: bool = True
    """The student reads its caption and the criteria and rewrites; otherwise it draws another caption, which suits a
    tiny student that knows one prompt."""
    temperature: float = Field(default=1.0, gt=0)
    max_new_tokens: int = Field(default=1024, ge=1)
    batch_size: int = Field(default=64, ge=1)
    engine: EngineOptions = EngineOptions()
    sft: SftConfig = SftConfig()


class OverlapPeer(_Peer):
    """NLP-metric RL: the reward is ROUGE-L against the caption that came with the image."""

    kind: Literal["rouge_l"]


class LikertPeer(_Peer):
    """VLM-judge RL: the reward is a rating from 0 to 10, without a reference or relative to one."""

    kind: Literal["direct_likert", "reference_likert"]
    judge: ImageEndpoint
    """Sees the image and the caption."""


class ExamPeer(_Peer):
    """CapRL's reward: right answers of a text model to multiple-choice questions, from the caption alone."""

    kind: Literal["caprl"]
    writer: ImageEndpoint
    """A strong vision-language model, which writes an exam for each training sample."""
    taker: Endpoint
    """A text model."""


Peer = Annotated[
    SupervisedPeer | RewritingPeer | OverlapPeer | LikertPeer | ExamPeer,
    Field(discriminator="kind"),
]
