"""Rollouts and scorecards as tables: the same after a training that was stopped and drew its last steps again."""

import json
from types import SimpleNamespace

import pytest
from image_judge import noisy_image, plain_image

from rubricworks.data.response_images import ResponseImages, response_of
from rubricworks.data.tables import read_rows
from rubricworks.grading import FailedCall
from rubricworks.llm import ChatError
from rubricworks.policy.step_tables import StepTables, scorecard_table
from rubricworks.rubrics import ErrorClass, Response, Scorecard, Verdict
from rubricworks.runtime.call_table import grading_dead_letters
from rubricworks.runtime.job import Job, close_job, set_aside


def job_in(folder) -> Job:
    made_by = {"stage": "train_policy", "version": "1", "config": "c", "inputs": {}}
    return Job(stage="train_policy", run=folder, out=folder / "train_policy", inputs={}, made_by=made_by)


def rollouts_of(step: int) -> tuple[SimpleNamespace, list[Scorecard]]:
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
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "ledger.jsonl"]  # has times
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def write(folder, first: int, last: int, *, stop_at: int | None = None) -> None:
    """A training with a checkpoint every other step, and at its end."""
    gradings = scorecard_table()
    with StepTables(job_in(folder), every=2) as tables:
        for step in range(first, last + 1):
            if step == stop_at:
                raise KeyboardInterrupt
            rollouts, cards = rollouts_of(step)
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
def test_training_that_stops_anywhere_and_resumes_leaves_the_same_bytes(tmp_path, stop_at):
    write(tmp_path / "whole", 1, 5)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "stopped", 1, 5, stop_at=stop_at)
    checkpoint = (stop_at - 1) // 2 * 2
    write(tmp_path / "stopped", checkpoint + 1, 5)
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")


def test_gradings_of_one_step_are_drained_once_with_their_verdicts_counted():
    table = scorecard_table()
    rollouts, cards = rollouts_of(1)
    table.add(cards[:1])  # on several processes the main one grades the first rows alone
    rows, verdicts = table.drain(rollouts)
    assert [(row["sample_id"], row["response"], row["reward"]) for row in rows] == [("a", "x1", 0.1)]
    assert verdicts == 1
    assert table.drain(rollouts) == ([], 0)


def test_scorecard_of_another_rollout_is_never_written_beside_a_reward():
    rollouts, cards = rollouts_of(1)
    table = scorecard_table()
    table.add(reversed(cards))
    with pytest.raises(RuntimeError, match="its scorecard of b"):
        table.drain(rollouts)
    table.add([*cards, cards[1]])
    with pytest.raises(RuntimeError, match="3 gradings of 2 rollouts"):
        table.drain(rollouts)


def write_images(folder, first: int, last: int, *, stop_at: int | None = None) -> None:
    """Like `write`, with two images a step, the second the same at every step; a stopped attempt drew another last."""
    gradings = scorecard_table()
    with StepTables(job_in(folder), every=2) as tables:
        for step in range(first, last + 1):
            rollouts, _ = rollouts_of(step)
            rollouts.responses = [Response.of_image(noisy_image("red", step)), Response.of_image(plain_image("blue"))]
            if step == stop_at:
                rollouts.responses[0] = Response.of_image(noisy_image("green", step))
            verdicts = (Verdict(criterion="c", credit=1.0),)
            gradings.add(
                Scorecard(sample_id=sample_id, response=response, judge="j", verdicts=verdicts)
                for sample_id, response in zip(rollouts.sample_ids, rollouts.responses, strict=True)
            )
            letter = FailedCall("a", rollouts.responses[0], "j", ("c",), ChatError(ErrorClass.TRANSPORT, "gone"))
            letters = grading_dead_letters(job_in(folder), letter)
            tables.add(rollouts, gradings.drain(rollouts)[0], letters)
            if step == stop_at:
                raise KeyboardInterrupt
            if step % 2 == 0 or step == last:
                tables.commit()


def test_images_are_stored_once_and_named_by_rollouts_scorecards_and_dead_letters(tmp_path):
    write_images(tmp_path, 1, 3)
    out = tmp_path / "train_policy"
    stored = {path.stem: path.read_bytes() for path in (out / "images").rglob("*.png")}
    assert len(stored) == 4
    for name, count in (("rollouts", 6), ("scorecards", 6), ("dead_letters", 3)):
        rows = list(read_rows(out / name))
        assert len(rows) == count
        images = ResponseImages.of_table(out / name)
        for row in rows:
            assert row["response_type"] == "image/png"
            assert images.read(response_of(row)).image == stored[row["response"]]
    card = Scorecard.model_validate_json(next(read_rows(out / "scorecards"))["scorecard"])
    assert card.response.digest in stored
    assert b"PNG" not in (out / "scorecards" / "part-00000.parquet").read_bytes()


def test_an_image_of_a_step_that_was_drawn_again_is_dropped_when_the_stage_closes(tmp_path):
    write_images(tmp_path / "whole", 1, 5)
    with pytest.raises(KeyboardInterrupt):
        write_images(tmp_path / "stopped", 1, 5, stop_at=4)
    write_images(tmp_path / "stopped", 3, 5)
    assert len(contents(tmp_path / "stopped")) == len(contents(tmp_path / "whole")) + 1
    for name in ("whole", "stopped"):
        job = job_in(tmp_path / name)
        close_job(job, 1.0)
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")


def test_an_output_that_is_moved_aside_keeps_the_images_of_its_committed_rows_alone(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        write_images(tmp_path, 1, 5, stop_at=3)
    job = job_in(tmp_path)
    (job.out / "made_from.json").write_text(json.dumps(job.made_by))
    set_aside(job.out, tmp_path)
    (aside,) = (tmp_path / "replaced").iterdir()
    expected = [noisy_image("red", 1), noisy_image("red", 2), plain_image("blue")]
    assert sorted(path.read_bytes() for path in (aside / "images").rglob("*.png")) == sorted(expected)


@pytest.mark.parametrize(("rank", "rows"), [("0", 2), ("1", 0)])
def test_only_the_process_that_writes_gradings_collects_them(monkeypatch, rank, rows):
    """The others never drain theirs: a thousand steps of scorecards would fill their memory."""
    monkeypatch.setenv("RANK", rank)
    gradings = scorecard_table()
    rollouts, cards = rollouts_of(1)
    gradings.add(cards)
    monkeypatch.setenv("RANK", "0")
    assert len(gradings.drain(rollouts)[0]) == rows
