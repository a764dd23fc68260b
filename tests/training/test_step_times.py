"""Parts of a step: what it waits for."""

from types import SimpleNamespace

import pytest

from rubricworks.training import progress
from rubricworks.training.progress import StepTimes


@pytest.fixture
def clock(monkeypatch):
    """Clock of the module, which the test moves."""

    class Clock:
        now = 0.0

    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: Clock.now))
    return Clock


def test_parts_add_up_to_the_steps_and_leave_out_what_is_between_them(clock):
    times = StepTimes()
    for sampling, judging, update in [(3.0, 1.0, 4.0), (5.0, 3.0, 6.0)]:
        times.on_step_begin()
        for part, seconds in (("sampler", sampling), ("judge", judging)):
            with times.part(part):
                clock.now += seconds
        clock.now += update
        times.on_step_end()
        clock.now += 100  # a probe, a checkpoint
    assert times.per_step() == {"sampler": 4.0, "judge": 2.0, "trainer": 5.0}


def test_a_step_that_reuses_its_rollouts_is_the_trainers(clock):
    times = StepTimes()
    for sampling in (4.0, 0.0):
        times.on_step_begin()
        if sampling:
            with times.part("sampler"):
                clock.now += sampling
        clock.now += 1.0
        times.on_step_end()
    assert times.per_step() == {"sampler": 2.0, "judge": 0.0, "trainer": 1.0}


def test_a_training_without_a_step_has_none():
    assert StepTimes().per_step() == {}
