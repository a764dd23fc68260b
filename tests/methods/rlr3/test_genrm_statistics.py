"""Table 3 by hand."""

from rubricworks.methods.rlr3.genrm_statistics import data_statistics
from rubricworks.rubrics import Criterion, Rubric

VERIFIABLE = Criterion(criterion="The number is right.", reference="expr_verify(target='4')", weight=3)
FUZZY = Criterion(criterion="The left is described.", reference="a red circle", weight=1, essential=False)


def row(split: str, task: str | None, loses: bool, *criteria: Criterion) -> dict:
    rubric = Rubric(criteria=criteria).model_dump_json()
    return {"split": split, "task": task, "loses_credit": loses, "rubric": rubric}


def test_instances_sources_criteria_and_verifiers_are_counted_by_split():
    result = data_statistics(
        [
            row("train", "count", True, VERIFIABLE, FUZZY),
            row("train", "count", False, VERIFIABLE),
            row("train", "colour", False, FUZZY),
            row("train", None, False, FUZZY),
            row("test", "count", True, VERIFIABLE, FUZZY),
        ]
    )
    assert list(result) == ["test", "train"]
    train = result["train"]
    assert (train.instances, train.criteria, train.criteria_each, train.losing_instances) == (4, 5, 1.25, 1)
    assert train.tasks == {"": 1, "colour": 1, "count": 2}
    assert (train.verifiable_instances, train.verifiable_instances_share) == (2, 0.5)
    assert (train.verifiable_criteria, train.verifiable_criteria_share) == (2, 0.4)
    assert (result["test"].instances, result["test"].verifiable_criteria_share) == (1, 0.5)
