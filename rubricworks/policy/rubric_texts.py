"""Rubrics of the samples that a policy is trained on."""

from collections.abc import Mapping

from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.rubrics import Rubric
from rubricworks.runtime.job import Job
from rubricworks.training.config import RefillOptions


def rubric_texts(job: Job) -> dict[str, str]:
    """Read sample_id → rubric as JSON from the input `rubrics`, of the samples that passed the filter, if there is one.

    Raises:
        UserError: the pipeline wrote no rubrics.
    """
    if "rubrics" not in job.inputs:
        raise UserError("there are no rubrics to train on: the recipe has them written by no stage")
    rubrics = {
        row["sample_id"]: row["rubric"] for row in read_rows(job.inputs["rubrics"], columns=["sample_id", "rubric"])
    }
    if "filtered" not in job.inputs:
        return rubrics
    filtered = read_rows(job.inputs["filtered"], columns=["sample_id", "kept"])
    passed = {row["sample_id"] for row in filtered if row["kept"]}
    return {sample_id: text for sample_id, text in rubrics.items() if sample_id in passed}


def compared_samples(job: Job) -> dict[str, str]:
    """Training samples of a reward that reads no rubrics.

    If the pipeline wrote rubrics, only samples that have one, as for the rubric reward. Otherwise all samples, with an
    empty text.
    """
    if "rubrics" in job.inputs and (rubrics := rubric_texts(job)):
        return rubrics
    rows = read_rows(job.inputs["samples"], columns=["sample_id", "split"])
    return {row["sample_id"]: "" for row in rows if row["split"] == "train"}


def refill_criterion(refill: RefillOptions | None, rubrics: Mapping[str, str]) -> str | None:
    """Criterion by which `refill` drops prompts, if one is named.

    Args:
        rubrics: sample_id → rubric as JSON.
    Raises:
        UserError: no rubric has a criterion of that key or title.
    """
    name = refill and refill.criterion
    if not name:
        return None
    keys: set[str] = set()
    for text in rubrics.values():
        for criterion in Rubric.model_validate_json(text).criteria:
            if name in (criterion.key, criterion.criterion):
                return name
            keys.add(criterion.key or criterion.criterion)
    raise UserError(
        f"policy.algorithm.refill.criterion {name}: no rubric has such a criterion; there are "
        f"{', '.join(sorted(keys)[:20])}"
    )
