"""Arms of RLR³'s claims, read from a run's files with figures chosen by hand."""

import pytest
from claimed_runs import RATES, write_run

from rubricworks.errors import UserError
from rubricworks.methods.rlr3.claims import read_arms


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "run")


def test_run_gives_the_best_milestones_the_genrm_and_the_audits_settings(run):
    arms = read_arms(run)
    assert arms["base"]["accuracy"] == {"count": 0.3, "colour": 0.3}
    assert arms["rlvr"]["accuracy"] == {"count": 0.50, "colour": 0.50}  # step 40, not the last
    assert arms["rlr3"]["accuracy"] == {"count": 0.58, "colour": 0.58}
    # From the last milestone in the first half of the steps, which is the one at 20 of 60.
    assert arms["rlvr"]["second_half_gain"] == pytest.approx({"count": 0.06, "colour": 0.06})
    assert arms["rlr3"]["second_half_gain"] == pytest.approx({"count": 0.16, "colour": 0.16})
    assert arms["genrm_sft"]["criterion_level"] == {"test": 0.94}
    for setting, rates in RATES.items():
        assert {mode: values["audit"] for mode, values in arms[f"audit_{setting}"].items()} == rates


@pytest.mark.parametrize("file", ["train_genrm/genrm.json", "audit/audit.json", "score/scores.json"])
def test_missing_file_is_one_line_with_what_to_do(run, file):
    (run / file).unlink()
    with pytest.raises(UserError, match=file):
        read_arms(run)
