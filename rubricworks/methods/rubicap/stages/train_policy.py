"""Train the policy with GRPO on rubric rewards (RubiCap, section 3.3), or as one of the paper's baselines (`peer`)."""

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rubricworks.adapters.functions import FunctionReward, load_reward, source_digest
from rubricworks.adapters.trl import RubricReward
from rubricworks.grading import CallPer, Combine, Grader
from rubricworks.llm import ChatClient, Endpoint, ImageEndpoint
from rubricworks.methods.rubicap.peers.captions import REWRITING_VERSION, rewritten_captions, supervised_captions
from rubricworks.methods.rubicap.peers.config import Peer, RewritingPeer, SupervisedPeer
from rubricworks.methods.rubicap.peers.rewards import RewardedPeer, peer_reward
from rubricworks.methods.rubicap.stages.held_out_probe import HeldOutProbe
from rubricworks.methods.rubicap.stages.rubric_refresh import Refresh, RubricRefresh
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job
from rubricworks.stages.training.caption_tuning import train_on_captions
from rubricworks.stages.training.policy_training import (
    DeadLetters,
    refill_criterion,
    rubric_texts,
    train,
    training_dataset,
)
from rubricworks.stages.training.step_tables import GradingTable, scorecard_table
from rubricworks.training.config import PolicyConfig


class OwnReward(BaseModel):
    """User-defined reward in place of the rubric reward (`adapters.functions`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    function: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
    """`module:name`; the module is imported from the working directory or from installed packages."""


class PolicySection(StageConfig, PolicyConfig):
    """Section `policy:` of a recipe."""

    judge: Endpoint
    """Grades the rollouts; sees the criteria and the caption, never the image."""
    more_judges: tuple[Endpoint, ...] = ()
    """Further judges that grade every rollout; `combine` merges their credits."""
    combine: Combine = "majority"
    call_per: CallPer = "response"
    """One judge call per response, with all its criteria, or one per criterion (the paper)."""
    probe: ImageEndpoint | None = None
    """Pairwise judge that compares the policy with the base on held-out samples during training, for the alarm."""
    probe_samples: int = Field(default=32, ge=1)
    reward: OwnReward | None = Field(default=None, exclude_if=lambda reward: reward is None)
    """User-defined reward; by default the rubric reward."""
    peer: Peer | None = Field(default=None, exclude_if=lambda peer: peer is None)
    """Baseline that is trained in the place of the rubric reward; none by default."""

    @model_validator(mode="after")
    def _refresh_is_set_once(self) -> "PolicySection":
        if self.refresh_every:
            raise ValueError("refresh_every belongs to the rubrics: set rubric.refresh_every")
        return self

    @model_validator(mode="after")
    def _one_reward(self) -> "PolicySection":
        if self.reward and self.peer:
            raise ValueError(f"reward and peer are both set; leave out one, or peer {self.peer.kind} has two rewards")
        return self


class Config(PolicySection):
    refresh: Refresh | None = None

    def versions(self) -> dict[str, str]:
        """Version of a user's reward, or of the rewriting: a training is not continued with an edited one."""
        rewriting = {"rewriting": REWRITING_VERSION} if isinstance(self.peer, RewritingPeer) else {}
        return {"reward": source_digest(load_reward(self.reward.function))} if self.reward else rewriting


def run(config: Config, job: Job) -> None:
    if isinstance(config.peer, SupervisedPeer):
        captions = supervised_captions(config.peer, job, seed=config.seed)
        train_on_captions(config, job, captions, config.peer.sft, seed=config.seed)
    elif isinstance(config.peer, RewritingPeer):
        letters = DeadLetters(job)
        judges = _judges(config, job)
        captions = rewritten_captions(
            config.peer, job, _grader(config, judges, letters), judges, letters, seed=config.seed
        )
        train_on_captions(config, job, captions, config.peer.sft, seed=config.seed)
    elif config.peer:
        _train_on_peer_reward(config.peer, config, job)
    else:
        _train_on_rubrics(config, job)


def _train_on_rubrics(config: Config, job: Job) -> None:
    from rubricworks.training.checkpoints import last_checkpoint

    rubrics = rubric_texts(job)
    dataset = training_dataset(job, rubrics)
    judges = _judges(config, job)
    letters = DeadLetters(job)
    scorecards = scorecard_table()
    reward: RubricReward | FunctionReward
    if config.reward:
        reward = FunctionReward(config.reward.function, on_error=letters.add)
    else:
        grader = _grader(config, judges, letters)
        reward = RubricReward(grader, criterion=refill_criterion(config, rubrics), sink=scorecards.add)
    refresh = RubricRefresh(config.refresh, job, rubrics) if config.refresh else None
    if refresh and (checkpoint := last_checkpoint(job.out)):
        refresh.restore(int(checkpoint.name.rpartition("-")[2]))
    train(
        config,
        _options(config),
        job,
        dataset,
        [refresh.reward(reward) if refresh else reward],
        scorecards,
        judges=judges,
        letters=letters,
        refresh=refresh,
        probe=_probe(config, job),
    )


def _train_on_peer_reward(peer: RewardedPeer, config: Config, job: Job) -> None:
    """Train by the peer's reward on the samples that RubiCap's own reward is trained on: those with a rubric."""
    letters = DeadLetters(job)
    # The count of judgments is only for the progress line; no table stores it.
    judgments: GradingTable[int] = GradingTable("scorecards", None, int)
    reward = peer_reward(peer, job, letters, judgments.add, seed=config.seed)
    rubrics = {
        name: text for name, text in rubric_texts(job).items() if reward.samples is None or name in reward.samples
    }
    train(
        config,
        _options(config),
        job,
        training_dataset(job, rubrics),
        [reward.function],
        judgments,
        judges=reward.judges,
        letters=letters,
        probe=_probe(config, job),
    )


def _judges(config: Config, job: Job) -> list[ChatClient]:
    return [job.client(judge, "judge") for judge in (config.judge, *config.more_judges)]


def _grader(config: Config, judges: list[ChatClient], letters: DeadLetters) -> Grader:
    return Grader(judges, call_per=config.call_per, combine=config.combine, on_error=letters.add)


def _probe(config: Config, job: Job) -> HeldOutProbe | None:
    return HeldOutProbe(config.probe, config.probe_samples, job, config.seed) if config.probe else None


def _options(config: Config) -> PolicyConfig:
    values = {name: getattr(config, name) for name in PolicyConfig.model_fields}
    if config.refresh:
        values["refresh_every"] = config.refresh.every
    return PolicyConfig(**values)
