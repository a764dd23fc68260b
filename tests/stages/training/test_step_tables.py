"""Rollouts and scorecards as tables: the same after a training that was stopped and drew its last steps again."""

from types import SimpleNamespace

import pytest

from rubricworks.data.tables import read_rows
from rubricworks.rubrics import Scorecard, Verdict
from rubricworks.runtime.job import Job
from rubricworks.stages.training.step_tables import StepTables, scorecard_table


def job_in(folder) -> Job:
    made_by = {"stage": "train_policy", "version": "1", "config": "c", "inputs": {}}
    return Job(stage="train_policy", run=folder, out=folder / "train_policy", inputs={}, made_by=made_by)


def drawn(step: int) -> tuple[SimpleNamespace, list[Scorecard]]:
    """Two rollouts, the second not judged."""
    rollouts = SimpleNamespace(
        step=step,
        sample_ids=["a", "b"],
        responses=[f"x{step}", f"y{step}"],
        tokens=[3, 4],
        rewards=[step / 10, None],
        advantages=[0.5, 0.0],
    )
    verdicts = [Verdict(criterion="c", credit=1.0), Verdict(criterion="c", error="transport")]
    cards = [
        Scorecard(sample_id=sample_id, response=response, judge="j", verdicts=(verdict,))
        for sample_id, response, verdict in zip(rollouts.sample_ids, rollouts.responses, verdicts, strict=True)
    ]
    return rollouts, cards


def contents(folder) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def write(folder, first: int, last: int, *, stop_at: int | None = None) -> None:
    """A training with a checkpoint every other step, and at its end."""
    gradings = scorecard_table()
    with StepTables(job_in(folder), every=2) as tables:
        for step in range(first, last + 1):
            if step == stop_at:
                raise KeyboardInterrupt
            rollouts, cards = drawn(step)
            gradings.add(cards)
            tables.add(rollouts, gradings.drain(rollouts)[0])
            if step % 2 == 0 or step == last:
                tables.commit()


def test_rows_stand_in_order_with_rewards_and_gaps(tmp_path):
    write(tmp_path, 1, 3)
    rows = list(read_rows(tmp_path / "train_policy" / "rollouts"))
    assert [(row["step"], row["response"], row["reward"]) for row in rows] == [
        (1, "x1", 0.1), (1, "y1", None), (2, "x2", 0.2), (2, "y2", None), (3, "x3", 0.3), (3, "y3", None)
    ]  # fmt: skip
    assert len(list(read_rows(tmp_path / "train_policy" / "scorecards"))) == 6


@pytest.mark.parametrize("stop_at", [2, 3, 4, 5])
def test_a_training_that_stops_anywhere_and_goes_on_from_its_checkpoint_leaves_the_same_bytes(tmp_path, stop_at):
    write(tmp_path / "whole", 1, 5)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "stopped", 1, 5, stop_at=stop_at)
    checkpoint = (stop_at - 1) // 2 * 2
    write(tmp_path / "stopped", checkpoint + 1, 5)
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")


def test_gradings_of_one_step_are_drained_once_with_their_verdicts_counted():
    table = scorecard_table()
    rollouts, cards = drawn(1)
    table.add(cards[:1])  # on several processes the main one grades the first rows alone
    rows, verdicts = table.drain(rollouts)
    assert [(row["sample_id"], row["response"], row["reward"]) for row in rows] == [("a", "x1", 0.1)]
    assert verdicts == 1
    assert table.drain(rollouts) == ([], 0)


def test_a_scorecard_of_another_rollout_or_one_too_many_is_never_written_beside_a_reward():
    rollouts, cards = drawn(1)
    table = scorecard_table()
    table.add(reversed(cards))
    with pytest.raises(RuntimeError, match="its scorecard of b"):
        table.drain(rollouts)
    table.add([*cards, cards[1]])
    with pytest.raises(RuntimeError, match="3 gradings of 2 rollouts"):
        table.drain(rollouts)
