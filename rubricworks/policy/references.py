"""Reference captions of the training samples."""

from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.grading.assertions.texts import has_words
from rubricworks.runtime.job import Job


def training_references(job: Job, purpose: str) -> dict[str, str]:
    """sample_id → first reference of each training sample that has one.

    Args:
        purpose: clause of the error that says what the references are for.
    Raises:
        UserError: no training sample has a reference.
    """
    rows = read_rows(job.inputs["samples"], columns=["sample_id", "split", "references"])
    samples = {row["sample_id"]: row["references"] for row in rows if row["split"] == "train"}
    references = {name: texts[0] for name, texts in samples.items() if texts and has_words(texts[0])}
    job.figures["without_reference"] = len(samples) - len(references)
    if not references:
        raise UserError(f"none of the {len(samples)} samples to train on has a reference caption, {purpose}")
    return references
