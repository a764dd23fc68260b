"""TRL under the cases: what today's version does, by its own trainer. A change here is one that users must know of."""

import pytest

from rubricworks.adapters.conformance import CASES, Outcome, check_trainer

pytestmark = pytest.mark.slow  # up to three trainings a case
EXPECTED = {
    "none": Outcome.MASKED,
    "nan": Outcome.MASKED,
    "raises": Outcome.STOPPED,
    "timeout": Outcome.STOPPED,
    "partly": Outcome.ZERO,
    "partly-decoupled": Outcome.MOVES,
    "equals": Outcome.MASKED,
    "one-left": Outcome.MASKED,
    "none-left": Outcome.MASKED,
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_trl_does_what_the_page_says(case):
    from rubricworks.adapters.conformance.trl import TrlTrainer

    finding = check_trainer(TrlTrainer(), case)
    assert finding.outcome is EXPECTED[case.name], finding
    assert finding.line.startswith("trl/trainer/grpo_trainer.py:")
