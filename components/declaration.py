"""Declaration of a stage's component: its inputs and outputs are those of the stage table, its body one `launch`."""

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kfp import dsl

from rubricworks.components.images import image_of
from rubricworks.runtime.stage_table import STAGES

if TYPE_CHECKING:
    from kfp.dsl.python_component import PythonComponent

DESCRIPTIONS = {
    "config": "the stage's own configuration as JSON.",
    "run": "URI of the run's folder.",
    "view": "the stage's page.",
    "metrics": "the stage's figures.",
    "audit": "URI of the judge's audit.",
    "captions": "URI of the captions table.",
    "exams": "URI of the exams table.",
    "filtered": "URI of the table that says which samples are kept.",
    "found": "URI of the found samples.",
    "genrm": "URI of the trained GenRM.",
    "genrm_data": "URI of the table of labelled responses.",
    "model": "URI of the model to start from.",
    "peer": "URI of a training for comparison, if there is one.",
    "policy": "URI of the trained policy.",
    "promotion": "URI of the promotion's record.",
    "questions": "URI of the output of prepare_questions: the counts of the source.",
    "rubrics": "URI of the rubrics table.",
    "samples": "URI of the samples table.",
    "scores": "URI of the scores table.",
    "student_captions": "URI of the student's captions.",
}
"""Parameter → its description in the Kubeflow UI, unless a component gives its own."""
_ARTIFACTS = {
    "Dataset": ("dataset", dsl.Output[dsl.Dataset], "the table, for Kubeflow's pages: its URI and digests."),
    "Model": ("checkpoint", dsl.Output[dsl.Model], "the model, for Kubeflow's pages: its URI and digests."),
}
"""Kubeflow's type of a stage's output → name, annotation and description of the artifact that shows it."""
_KIND = Parameter.KEYWORD_ONLY


def stage_function(
    stage: str, purpose: str = "", returns: str = "", descriptions: Mapping[str, str] = MappingProxyType({})
) -> Callable[..., str]:
    """Return the function of a stage's component, with the signature and docstring that Kubeflow reads.

    In a pod Kubeflow imports `kfp` without its compiler, so this function uses the types of `dsl` only.
    """
    row = STAGES[stage]
    artifact, annotation, shown = _ARTIFACTS.get(row.artifact, ("", None, ""))

    def start(config: str, run: str, view: dsl.HTML, metrics: dsl.Metrics, **others: Any) -> str:
        from rubricworks.runtime.launch import launch

        inputs = {name: others.get(name, "") for name in row.inputs}
        lineage = {"lineage": others[artifact].metadata.update} if artifact else {}
        return launch(stage, config, run, inputs, view=view.path, metrics=metrics.log_metric, **lineage)

    annotations = {
        "config": str,
        "run": str,
        **dict.fromkeys(row.inputs, str),
        **({artifact: annotation} if artifact else {}),
        "view": dsl.Output[dsl.HTML],
        "metrics": dsl.Output[dsl.Metrics],
    }
    parameters = [
        Parameter(
            name, Parameter.KEYWORD_ONLY, annotation=kind, default="" if name in row.optional else Parameter.empty
        )
        for name, kind in annotations.items()
    ]
    words = {**DESCRIPTIONS, artifact: shown, **descriptions}
    arguments = "\n".join(f"    {name}: {words[name]}" for name in annotations)
    start.__name__ = stage
    start.__doc__ = f"{purpose}\n\nArgs:\n{arguments}\n\nReturns:\n    {returns}"
    start.__annotations__ = {**annotations, "return": str}
    start.__signature__ = Signature(parameters, return_annotation=str)  # type: ignore[attr-defined]
    return start


def component(stage: str, purpose: str, returns: str, **descriptions: str) -> "PythonComponent":
    """Declare the component of a stage.

    Args:
        stage: id in the stage table.
        purpose: an imperative, as for a docstring.
        returns: description of the URI that it returns.
        descriptions: of inputs that `DESCRIPTIONS` does not describe well enough.
    """
    function = stage_function(stage, purpose, returns, descriptions)
    declared: PythonComponent = dsl.component(
        function, base_image=image_of(stage), install_kfp_package=False, packages_to_install=[]
    )
    # Kubeflow stores the source of a component's function as its program, here that of `start`.
    declared.component_spec.implementation.container.command[-1] = (
        f'from {__name__} import stage_function\n\n{stage} = stage_function("{stage}")\n'
    )
    return declared
