"""Verdict of a rehearsal: stage by stage what passed, what differed from full size, and where it failed."""

import json
from typing import Literal, NamedTuple

Outcome = Literal["passed", "failed", "not reached"]


class StageVerdict(NamedTuple):
    """Verdict on one stage."""

    stage: str
    outcome: Outcome
    differs: tuple[str, ...]
    """Substitutions for parts of full size, with the reason."""
    killed_at: tuple[int, ...]
    """Steps of the checkpoints after which its trainings were killed and resumed."""
    reason: str
    """Reason for the failure, in a line."""
    seconds: float

    @property
    def text(self) -> str:
        """The verdict in words."""
        if self.outcome == "failed":
            return f"failed: {self.reason}"
        if self.outcome == "passed" and self.differs:
            return f"passed, except: {'; '.join(self.differs)}"
        return self.outcome


class Rehearsal(NamedTuple):
    """A rehearsal that has ended."""

    recipe: str
    arm: str | None
    stages: tuple[StageVerdict, ...]
    models: dict[str, str]
    """Model → class of its miniature, and where the shape is from."""
    notes: tuple[str, ...]
    """Substitutions in the whole rehearsal."""
    problems: tuple[str, ...]
    """Mistakes that show at full size alone."""
    needs: tuple[str, ...]
    """Lines with what full size takes."""
    calls: dict[str, int]
    """Kind of answer of the scripted server → calls; `failed` counts those that it failed."""
    seconds: float

    @property
    def passed(self) -> bool:
        """True if every stage passed, and full size has no problem of its own."""
        return not self.problems and all(verdict.outcome == "passed" for verdict in self.stages)

    def as_json(self) -> str:
        """The rehearsal as JSON."""
        fields = self._asdict() | {
            "passed": self.passed,
            "stages": [verdict._asdict() | {"text": verdict.text} for verdict in self.stages],
        }
        return json.dumps(fields, indent=2)

    def as_table(self) -> str:
        """The rehearsal as a table for the terminal."""
        name = self.recipe if self.arm is None else f"{self.recipe} --arm {self.arm}"
        widest = max((len(verdict.stage) for verdict in self.stages), default=5)
        lines = [f"rehearsal of {name}", "", f"{'stage':<{widest}}  {'seconds':>7}  {'resumed':>7}  verdict"]
        for verdict in self.stages:
            resumed = ", ".join(map(str, verdict.killed_at))
            seconds = f"{verdict.seconds:.1f}" if verdict.seconds else ""
            lines.append(f"{verdict.stage:<{widest}}  {seconds:>7}  {resumed:>7}  {verdict.text}")
        lines.append("")
        lines += [f"{model}: {miniature}" for model, miniature in self.models.items()]
        lines += self.notes
        if self.calls:
            total = sum(count for kind, count in self.calls.items() if kind != "failed")
            lines.append(f"{total:,} calls to the scripted server, {self.calls.get('failed', 0)} of them failed once")
        if self.needs:
            lines += ["", "at full size:", *(f"  {need}" for need in self.needs), ""]
        lines += [f"failed at full size: {problem}" for problem in self.problems]
        passed = sum(verdict.outcome == "passed" for verdict in self.stages)
        lines.append(f"{passed} of {len(self.stages)} stages passed in {self.seconds:.0f} s")
        return "\n".join(lines)
