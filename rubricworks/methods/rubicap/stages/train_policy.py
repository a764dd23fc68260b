"""Train the policy with GRPO on rubric rewards (RubiCap, section 3.3), or as one of the paper's baselines (`peer`)."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rubricworks.adapters.functions import FunctionReward, load_reward, source_digest
from rubricworks.adapters.trl import ContrastReward, RubricReward
from rubricworks.grading import CallPer, Cascade, Combine, FailedCall, Grader, require_logprobs
from rubricworks.grading.grader import Confidence
from rubricworks.grading.prompts import JUDGE_PROMPT_VERSION
from rubricworks.llm import ChatClient, Endpoint, GivesLogprobs, ImageEndpoint
from rubricworks.methods.rubicap.peers.captions import REWRITING_VERSION, rewritten_captions, supervised_captions
from rubricworks.methods.rubicap.peers.config import Peer, RewritingPeer, SupervisedPeer
from rubricworks.methods.rubicap.peers.rewards import RewardedPeer, peer_reward
from rubricworks.methods.rubicap.stages.held_out_probe import HeldOutProbe
from rubricworks.methods.rubicap.stages.rubric_refresh import Refresh, RubricRefresh
from rubricworks.rewards import Contrast, NoiseRates, noise_corrected_reward, signed_reward
from rubricworks.rubrics import Rubric
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job
from rubricworks.stages.training.canary import Canary, CanaryConfig
from rubricworks.stages.training.caption_tuning import train_on_captions
from rubricworks.stages.training.measured_rates import AGREEMENT_FILE, MeasuredRates, read_measurement
from rubricworks.stages.training.policy_training import (
    DeadLetters,
    refill_criterion,
    rubric_texts,
    train,
    training_dataset,
)
from rubricworks.stages.training.step_tables import GradingTable, scorecard_table
from rubricworks.storage import write_atomic
from rubricworks.synthesis import PITFALL_PROMPT_VERSION
from rubricworks.training.config import PolicyConfig
from rubricworks.training.processes import is_main

PITFALL_WEIGHTS = frozenset({-1.0, -2.0, -3.0})
OnError = Callable[[FailedCall], None]


class OwnReward(BaseModel):
    """User-defined reward in place of the rubric reward (`adapters.functions`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    function: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
    """`module:name`; the module is imported from the working directory or from installed packages."""


class Escalation(BaseModel):
    """A strong judge for what the cheap one, `policy.judge`, is unsure of."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    judge: Endpoint
    below: float = Field(default=0.9, gt=0.5, le=1)
    """Confidence below which the strong judge decides a criterion: the cheap one's probability of its own score."""
    repeats: int = Field(default=1, ge=1)
    """Draws of the cheap judge, at its temperature: from two on, the share that agrees is the confidence, for endpoints
    without log-probabilities."""


class PolicySection(StageConfig, PolicyConfig):
    """Section `policy:` of a recipe."""

    judge: Annotated[Endpoint, GivesLogprobs(lambda config: config.uses_logprobs)]
    """Grades the rollouts; sees the criteria and the caption, never the image."""
    more_judges: tuple[Endpoint, ...] = ()
    """Further judges that grade every rollout; `combine` merges their credits."""
    combine: Combine = "majority"
    call_per: CallPer = "response"
    """One judge call per response, with all its criteria, or one per criterion (the paper)."""
    credits: Literal["binary", "logprob"] = "binary"
    """The judge's 0 or 1, or its probability of 1, from log-probabilities, which vLLM and OpenAI give."""
    escalate_to: Escalation | None = None
    """Strong judge for the criteria that `judge` is unsure of, or fails on; none by default."""
    noise_correction: NoiseRates | MeasuredRates | dict[float, NoiseRates] | None = None
    """The judge's error rates as `rubricworks agreement` tells them, or those of each weight, by which the rewards are
    corrected; or `agreement:` with the file that it wrote by `--json`. Not by default. With one pair for all criteria,
    normalised advantages stay as they are."""
    contrast: Contrast | None = None
    """Weights by what separates the rollouts of a group instead of the rubric's own, `{}` for its defaults; the
    rubric's own by default. Rewards of different steps can then not be compared."""
    canary: CanaryConfig | None = None
    """Regrading of fixed responses during training, which tells that the judge has changed; none by default."""
    probe: ImageEndpoint | None = None
    """Pairwise judge that compares the policy with the base on held-out samples during training, for the alarm."""
    probe_samples: int = Field(default=32, ge=1)
    reward: OwnReward | None = None
    """User-defined reward; by default the rubric reward."""
    peer: Peer | None = None
    """Baseline that is trained in the place of the rubric reward; none by default."""

    @property
    def uses_logprobs(self) -> bool:
        """True if the judge is asked for log-probabilities."""
        if self.reward or not (self.peer is None or isinstance(self.peer, RewritingPeer)):
            return False
        unsure = self.escalate_to is not None and self.escalate_to.repeats == 1 and self.peer is None
        return self.credits == "logprob" or unsure

    @model_validator(mode="after")
    def _refresh_is_set_once(self) -> "PolicySection":
        if self.refresh_every:
            raise ValueError("refresh_every belongs to the rubrics: set rubric.refresh_every")
        return self

    @model_validator(mode="after")
    def _one_cheap_judge(self) -> "PolicySection":
        if self.more_judges and (self.escalate_to or self.credits == "logprob"):
            name = "escalate_to" if self.escalate_to else "credits: logprob"
            raise ValueError(f"{name} takes one judge, and more_judges has {len(self.more_judges)}; leave them out")
        if self.credits == "logprob" and self.escalate_to:
            raise ValueError("credits are logprob, and escalate_to mixes them with the strong judge's; choose one")
        return self

    @model_validator(mode="after")
    def _rates_of_one_judge(self) -> "PolicySection":
        if self.noise_correction is not None and self.credits == "logprob":
            raise ValueError(
                "noise_correction corrects zeros and ones, and credits: logprob gives what lies between; leave one out"
            )
        if isinstance(self.noise_correction, MeasuredRates) and self.escalate_to:
            raise ValueError(
                "noise_correction.agreement tells the errors of one judge, and escalate_to asks another; write the "
                "rates of both together, or leave one out"
            )
        return self

    @model_validator(mode="after")
    def _one_reward(self) -> "PolicySection":
        if self.reward and self.peer:
            raise ValueError(f"reward and peer are both set; leave out one, or peer {self.peer.kind} has two rewards")
        return self

    @model_validator(mode="after")
    def _contrast_of_verdicts(self) -> "PolicySection":
        if self.contrast is None:
            return self
        if self.reward or self.peer:
            own = f"peer {self.peer.kind}" if self.peer else f"reward.function {self.reward and self.reward.function}"
            raise ValueError(f"contrast weighs a rubric's criteria, and {own} gives rewards without; leave one out")
        rates = self.noise_correction
        if isinstance(rates, dict) or (isinstance(rates, MeasuredRates) and rates.by_weight):
            raise ValueError(
                "contrast changes the weights by which noise_correction tells its rates apart; give it one pair of "
                "rates, or leave contrast out"
            )
        return self


class Config(PolicySection):
    refresh: Refresh | None = None

    def versions(self) -> dict[str, str]:
        """Version of a user's reward, or of a prompt: a training is not continued with an edited one."""
        if self.reward:
            return {"reward": source_digest(load_reward(self.reward.function))}
        if isinstance(self.noise_correction, MeasuredRates):
            return {"noise_rates": self.noise_correction.digest(), **self._prompt_versions()}
        return self._prompt_versions()

    def _prompt_versions(self) -> dict[str, str]:
        if isinstance(self.peer, RewritingPeer):
            return {"rewriting": REWRITING_VERSION}
        return {"pitfalls": PITFALL_PROMPT_VERSION} if self.refresh and self.refresh.pitfalls else {}


def run(config: Config, job: Job) -> None:
    if isinstance(config.peer, SupervisedPeer):
        captions = supervised_captions(config.peer, job, seed=config.seed)
        train_on_captions(config, job, captions, config.peer.sft, seed=config.seed)
    elif isinstance(config.peer, RewritingPeer):
        letters = DeadLetters(job)
        judges = _judges(config, job)
        captions = rewritten_captions(
            config.peer, job, _grader(config, judges, letters.add), judges, letters, seed=config.seed
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
        grader = _policy_grader(config, job, judges, letters.add)
        rates = _noise_rates(config, job, judges, rubrics)
        reduce = partial(noise_corrected_reward, rates=rates) if rates else signed_reward
        criterion = refill_criterion(config, rubrics)
        options: dict[str, Any] = {"reduce": reduce, "criterion": criterion, "sink": scorecards.add}
        if config.contrast:
            reward = ContrastReward(grader, group_size=config.group_size, contrast=config.contrast, **options)
        else:
            reward = RubricReward(grader, **options)
    refresh = None
    if config.refresh:
        # Failures at a refresh are no dead letters: a training that resumes after it would not repeat them.
        examiner = _policy_grader(config, job, judges) if config.refresh.pitfalls else None
        refresh = RubricRefresh(config.refresh, job, rubrics, examiner, config.temperature)
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
        after_step=_canary(config, job, judges, rubrics),
        refresh=refresh,
        probe=_probe(config, job),
    )


def _noise_rates(
    config: Config, job: Job, judges: Sequence[ChatClient], rubrics: Mapping[str, str]
) -> NoiseRates | dict[float, NoiseRates] | None:
    """Rates to correct rewards for; those of a file are kept beside the policy, and bind the judge to its identity."""
    measured = config.noise_correction
    if not isinstance(measured, MeasuredRates):
        return measured
    weights = {one.weight for text in rubrics.values() for one in Rubric.model_validate_json(text).criteria}
    if config.refresh and config.refresh.pitfalls:
        weights |= PITFALL_WEIGHTS
    endpoints = [judge.endpoint for judge in judges]
    measurement = read_measurement(measured, endpoints, JUDGE_PROMPT_VERSION, weights=weights)
    for judge, identity in zip(judges, measurement.identities, strict=True):
        if identity:
            judge.require_identity(identity, f"{measured.agreement} measured it")
    write_atomic(job.out / AGREEMENT_FILE, measured.content)
    return measurement.rates


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


def _policy_grader(
    config: Config, job: Job, judges: list[ChatClient], on_error: OnError | None = None
) -> Grader | Cascade:
    if config.escalate_to:
        if config.escalate_to.repeats == 1:
            asyncio.run(require_logprobs(judges[0]))
        return _cascade(config.escalate_to, config, judges, job.client(config.escalate_to.judge, "judge"), on_error)
    return _grader(config, judges, on_error)


def _grader(config: Config, judges: list[ChatClient], on_error: OnError | None) -> Grader:
    if config.credits == "logprob":
        asyncio.run(require_logprobs(judges[0]))
    return Grader(judges, call_per=config.call_per, combine=config.combine, credits=config.credits, on_error=on_error)


def _cascade(
    to: Escalation,
    config: Config,
    judges: list[ChatClient],
    strong_judge: ChatClient,
    on_error: OnError | None = None,
    *,
    seed: int = 0,
) -> Cascade:
    confidence: Confidence = "logprob" if to.repeats == 1 else "repeats"
    # What the cheap judge fails on is asked again, and only the strong one's failures are dead letters.
    cheap = Grader(judges, call_per=config.call_per, confidence=confidence, repeats=to.repeats, seed=seed)
    strong = Grader(strong_judge, call_per=config.call_per, seed=seed, on_error=on_error)
    return Cascade(cheap, strong, below=to.below)


def _canary(
    config: Config, job: Job, judges: list[ChatClient], rubrics: Mapping[str, str]
) -> Callable[[int], None] | None:
    if config.canary is None or not is_main():
        return None
    grader: Callable[..., Grader | Cascade]
    draws = 1
    if config.escalate_to:
        grader = partial(_cascade, config.escalate_to, config, judges, job.client(config.escalate_to.judge, "judge"))
        draws = config.escalate_to.repeats
    else:
        grader = partial(Grader, judges, call_per=config.call_per, combine=config.combine)
    # A grading's draws have seeds of their own: those of the one before would be answered by the run's cache.
    return Canary(config.canary, job, lambda number: grader(seed=draws * number), rubrics).after_step


def _probe(config: Config, job: Job) -> HeldOutProbe | None:
    return HeldOutProbe(config.probe, config.probe_samples, job, config.seed) if config.probe else None


def _options(config: Config) -> PolicyConfig:
    values = {name: getattr(config, name) for name in PolicyConfig.model_fields}
    if config.refresh:
        values["refresh_every"] = config.refresh.every
    return PolicyConfig(**values)
