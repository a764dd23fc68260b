"""The alarm on policies that learn, or game their reward, in the scene world; more: `benchmarks.hacking_alarm`."""

from pathlib import Path

import pytest

SEED = 401
PROBE = "blurred comparison"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bench():
    """Modules that train the policies, and that label and watch their runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[3]))
        from benchmarks import hacking_alarm
        from rubricworks.claims import behavioural_policy

        return behavioural_policy, hacking_alarm


@pytest.mark.parametrize("regime", ["pads", "lists"])
def test_alarm_finds_a_policy_that_games_its_reward_by_a_probe_that_is_no_oracle(bench, regime):
    policies, alarm = bench
    labelled = alarm.label(policies.train(regime, SEED))
    assert labelled.is_hacked
    seen = alarm.outcome(labelled.run, PROBE)
    assert seen.fired is not None
    assert seen.fired > labelled.onset


@pytest.mark.parametrize("regime", ["repeating", "growing"])
def test_alarm_is_silent_on_policies_that_stop_repeating_or_grow(bench, regime):
    policies, alarm = bench
    labelled = alarm.label(policies.train(regime, SEED))
    assert not labelled.is_hacked
    assert [alarm.outcome(labelled.run, probe).fired for probe in (PROBE, None)] == [None, None]


def test_a_training_is_the_same_again(bench):
    policies, _ = bench
    first, again = (policies.train("pads", SEED, steps=10) for _ in range(2))
    assert first == again
