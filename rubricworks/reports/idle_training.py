"""Evidence that a run learnt nothing: groups without a difference to learn from, and a warm-up learnt by heart."""

from typing import NamedTuple

from rubricworks.reports.formats import percent, whole
from rubricworks.reports.run_folder import RunFolder, table_rows

_IDLE = 0.75
"""Share of groups with equal rewards from which on a training is said to have learnt nothing; half is common."""
_BY_HEART = 0.05
"""Loss per token of a warm-up below which its examples are known by heart."""
_WARM_UP = "warm_up"


class GroupShares(NamedTuple):
    """Groups of rollouts of a training, and how many of them taught nothing."""

    groups: int
    equal: int
    """Groups whose judged rollouts earned the same reward."""
    identical: int
    """Groups whose rollouts are all the same."""


def group_shares(run: RunFolder, stage: str) -> GroupShares:
    """Count the groups of a training's rollouts; a group with fewer than two judged rollouts counts as equal."""
    groups = equal = identical = 0
    step: int | None = None
    of_step: dict[str, tuple[set[float], set[str]]] = {}

    def count() -> None:
        nonlocal groups, equal, identical
        groups += len(of_step)
        equal += sum(len(rewards) < 2 for rewards, _ in of_step.values())
        identical += sum(len(responses) < 2 for _, responses in of_step.values())
        of_step.clear()

    for row in table_rows(run.path / stage / "rollouts", ["step", "sample_id", "response", "reward"]):
        if row["step"] != step:
            count()
            step = row["step"]
        rewards, responses = of_step.setdefault(row["sample_id"], (set(), set()))
        responses.add(row["response"])
        if row["reward"] is not None:
            rewards.add(row["reward"])
    count()
    return GroupShares(groups, equal, identical)


def learnt_nothing(run: RunFolder) -> str:
    """Sentence about trainings without a learning signal, or an empty string."""
    sentences = []
    for stage, name in (run.trainings or {"train_policy": ""}).items():
        shares = group_shares(run, stage)
        if not shares.groups or shares.equal / shares.groups < _IDLE:
            continue
        sentence = f"{percent(shares.equal / shares.groups)} of {whole(shares.groups)} groups had equal rewards"
        if shares.identical:
            sentence += f", in {percent(shares.identical / shares.groups)} all rollouts were identical"
        sentences.append(f"{name}: {sentence}" if name else sentence)
    if not sentences:
        return ""
    if by_heart := _memorised(run):
        sentences.append(by_heart)
    return f"Learnt almost nothing: {'; '.join(sentences)}."


def _memorised(run: RunFolder) -> str:
    lines = [entry for entry in run.ledger if entry["stage"] == _WARM_UP]
    loss, examples = (lines[-1].get(name) if lines else None for name in ("loss", "examples"))
    if not isinstance(loss, float) or not isinstance(examples, int) or loss >= _BY_HEART:
        return ""
    return f"the warm-up knows its {whole(examples)} captions by heart (loss {loss:.2g})"
