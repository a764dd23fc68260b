"""Canary of a policy's judge: regrades the same responses at regular intervals (`policy.reward.canary`).

The policy changes during training, so its rewards cannot reveal a change of the judge. The canary's responses, the
committee's captions of a few training samples, stay; their first grading is the measure. If nothing could be graded at
the start, it is that of the first step at which something can. Each grading has a seed of its own, so that the run's
cache does not answer. A change beyond chance raises an alarm: the interval of the mean difference does not hold 0, or
more verdicts change than between two gradings at the start.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from pydantic import BaseModel, ConfigDict, Field

from rubricworks.data.tables import Sample, read_rows
from rubricworks.grading import Cascade, Grader
from rubricworks.metrics import Interval, drift
from rubricworks.rubrics import Rubric, Scorecard
from rubricworks.runtime.job import Job
from rubricworks.storage import write_atomic

CANARY_FILE = "canary.json"
LEVEL = 0.999
"""Confidence of the intervals; a training checks dozens of times."""
logger = logging.getLogger(__name__)


class CanaryConfig(BaseModel):
    """Settings of the canary."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    every: int = Field(default=50, ge=1)
    """Steps between two gradings."""
    samples: int = Field(default=16, ge=2)
    """Responses, one of a sample each."""


class CanaryCheck(BaseModel):
    """One grading of the canary against the first."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    step: int
    verdicts: int
    changed: Interval
    """Share of the verdicts that are others than at the start."""
    difference: Interval
    """Mean credit minus that at the start."""
    alarm: str = ""


class CanaryRecord(BaseModel):
    """The canary's responses are those of the samples named; file of the training stage."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    start: dict[str, tuple[float | None, ...]]
    """Sample → credits of the first grading."""
    checks: tuple[CanaryCheck, ...] = ()
    """The first is of step 0: a second grading at once, which tells how many verdicts flip by themselves."""


class Canary:
    """Regrading of fixed responses, stored with the checkpoints."""

    def __init__(
        self, config: CanaryConfig, job: Job, grader_of: Callable[[int], Grader | Cascade], rubrics: Mapping[str, str]
    ) -> None:
        """
        Args:
            grader_of: makes the policy's grader with a seed.
            rubrics: sample_id → rubric as JSON.
        """
        self._every = config.every
        self._grader_of = grader_of
        self._tried = 0
        self._file = job.out / CANARY_FILE
        self._rows = list(islice(_captioned(job, rubrics), config.samples))
        if self._file.exists():
            self.record = CanaryRecord.model_validate_json(self._file.read_bytes())
        else:
            self.record = CanaryRecord(start={})
            self._start(0)

    @property
    def alarm(self) -> str:
        """The first alarm, or an empty string."""
        return next((check.alarm for check in self.record.checks if check.alarm), "")

    def after_step(self, step: int) -> None:
        """Grade again if it is time, unless that was done before a restart."""
        done = max((check.step for check in self.record.checks), default=self._tried)
        if step // self._every > max(done, self._tried) // self._every:
            self._tried = step
            if self.record.checks:
                self._check(step)
            else:
                self._start(step)

    def _start(self, step: int) -> None:
        """Take the grading of this step as the measure; if it fails for all, the next step's is."""
        self.record = CanaryRecord(start=self._grade(step))
        self._check(step)

    def _check(self, step: int) -> None:
        now = self._grade(step + 1)
        items = [
            (name, before, after)
            for name, credits in self.record.start.items()
            for before, after in zip(credits, now[name], strict=True)
            if before is not None and after is not None
        ]
        if not items:
            logger.warning("the canary of step %d could not be graded", step)
            return
        names, start, again = zip(*items, strict=True)
        change = drift(start, again, names, level=LEVEL)
        check = CanaryCheck(step=step, verdicts=len(items), changed=change.changed, difference=change.difference)
        if self.record.checks and (alarm := _alarm(check, self.record.checks[0])):
            check = check.model_copy(update={"alarm": alarm})
            logger.warning("the judge has changed by step %d: %s", step, alarm)
        self.record = self.record.model_copy(update={"checks": (*self.record.checks, check)})
        write_atomic(self._file, self.record.model_dump_json(indent=1).encode())

    def _grade(self, seed: int) -> dict[str, tuple[float | None, ...]]:
        grader = self._grader_of(seed)

        async def grade() -> list[Scorecard]:
            return await asyncio.gather(*(grader.grade(*row) for row in self._rows))

        return {card.sample_id: tuple(card.credits) for card in asyncio.run(grade())}


def _alarm(check: CanaryCheck, start: CanaryCheck) -> str:
    """Reason for an alarm; empty if chance explains the change."""
    difference, changed = check.difference, check.changed
    if difference.lies_above(0) or difference.lies_below(0):
        return f"its credits of the same responses have moved by {difference.value:+.2f}"
    if changed.bounds and start.changed.bounds and changed.lies_above(start.changed.bounds[1]):
        return (
            f"{changed.value:.0%} of its verdicts on the same responses are others ({start.changed.value:.0%} at first)"
        )
    return ""


def _captioned(job: Job, rubrics: Mapping[str, str]) -> Iterator[tuple[Sample, str, Rubric]]:
    """Samples with a rubric, each with one caption, of another teacher from one to the next."""
    captions: dict[str, list[str]] = {}
    for row in read_rows(job.inputs["captions"], columns=["sample_id", "caption"]):
        if row["caption"] and row["sample_id"] in rubrics:
            captions.setdefault(row["sample_id"], []).append(row["caption"])
    for number, (name, texts) in enumerate(sorted(captions.items())):
        rubric = Rubric.model_validate_json(rubrics[name])
        yield Sample(sample_id=name), texts[number % len(texts)], rubric
