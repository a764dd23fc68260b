"""Scores of a run's base and policy, sample by sample."""

import pytest
from claimed_captions import write_captions

from rubricworks.claims.scored_arms import read_arms
from rubricworks.errors import UserError


def test_own_run_gives_its_policy_and_the_base_and_an_arm_its_policy_alone(tmp_path):
    own = read_arms(write_captions(tmp_path / "own"), "balcaprl", "own")
    assert own == {name: {"b_capscore": dict.fromkeys(("s0", "s1", "s2", "s3"), 0.5)} for name in ("own", "base")}
    arm = read_arms(write_captions(tmp_path / "arm", "no_length"), "balcaprl", "no_length")
    assert arm == {"no_length": own["own"]}


def test_unfinished_run_is_refused(tmp_path):
    run = write_captions(tmp_path / "own")
    (run / "score" / "done.json").unlink()
    with pytest.raises(UserError, match="the stage score has not finished"):
        read_arms(run, "balcaprl", "own")
