"""A rubric as registered judges of MLflow: one per criterion, versioned by MLflow and run by its own model gateway.

    for judge in criterion_judges(rubric, model="openai:/gpt-5-mini"):
        judge.register().start(sampling_config=ScorerSamplingConfig(sample_rate=0.1))  # on an experiment's traces

A changed criterion registers as a new version of the same name. Each judge gives a feedback with a rationale, in a call
of its own. `adapters.mlflow.RubricScorer` grades a rubric in one call and gives its reward, but MLflow registers no
class.
"""

from mlflow.genai.judges import Judge, make_judge

from rubricworks.adapters.mlflow_traces import criterion_name
from rubricworks.errors import UserError
from rubricworks.rubrics import Criterion, Rubric

_INSTRUCTIONS = """\
You check one criterion of a response. Judge this criterion alone, by what the response says.

Criterion: {criterion}
{details}
The prompt:
{{{{ inputs }}}}

The response:
{{{{ outputs }}}}

Return true if the criterion is met, else false."""


def criterion_judges(rubric: Rubric, *, model: str, name: str = "rubric", base_url: str | None = None) -> list[Judge]:
    """One judge per criterion, named as the feedbacks of `RubricScorer`.

    Args:
        model: model as MLflow names it, such as `openai:/gpt-5-mini`.
        base_url: address of another server of the same protocol.
    Raises:
        UserError: a criterion is a verifier's, or has double braces, which MLflow would take for a variable.
    """
    return [
        make_judge(
            name=criterion_name(name, criterion.criterion),
            instructions=_instructions(criterion),
            model=model,
            description=f"weight {criterion.weight:g}",
            feedback_value_type=bool,
            base_url=base_url,
        )
        for criterion in rubric.criteria
    ]


def _instructions(criterion: Criterion) -> str:
    if criterion.verifier is not None:
        raise UserError(
            f"criterion {criterion.criterion!r}: {criterion.verifier} checks it, and MLflow runs no verifier"
        )
    parts = {"Details": criterion.description, "Rule": criterion.evaluation_rule, "Reference": criterion.reference}
    details = "".join(f"{label}: {text}\n" for label, text in parts.items() if text)
    if "{{" in criterion.criterion + details:
        raise UserError(f"criterion {criterion.criterion!r}: MLflow takes '{{{{' for a variable; write it without")
    return _INSTRUCTIONS.format(criterion=criterion.criterion, details=details)
