"""A pipeline as the YAML file that a Kubeflow installation takes. The same pipeline gives the same bytes."""

from pathlib import Path

from kfp import compiler
from kfp.dsl.base_component import BaseComponent

from rubricworks.errors import UserError


def compile_pipeline(pipeline_func: BaseComponent, path: Path) -> None:
    """Write the pipeline's specification to `path`, making its folder if need be.

    Raises:
        UserError: the name does not end in .yaml, or the file cannot be written.
    """
    if path.suffix not in {".yaml", ".yml"}:
        raise UserError(f"{path}: a compiled pipeline is YAML; give a name that ends in .yaml")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        compiler.Compiler().compile(pipeline_func, str(path))
    except OSError as error:
        raise UserError(
            f"{path}: cannot write the compiled pipeline ({error.strerror}); choose another place"
        ) from error
