"""`rubricworks pipelines`: the DAGs as Kubeflow Pipelines reads them."""

from pathlib import Path

import click


@click.group()
def pipelines() -> None:
    """Compile pipelines for Kubeflow."""


@pipelines.command("compile")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=Path("compiled"))
def compile_(folder: Path) -> None:
    """Write every pipeline into FOLDER as YAML that `kfp` and the Kubeflow UI take; the same bytes every time."""
    from rubricworks.pipelines.compile import compile_pipeline
    from rubricworks.pipelines.rubicap import rubicap

    folder.mkdir(parents=True, exist_ok=True)
    compile_pipeline(rubicap, folder / "rubicap.yaml")
    click.echo(folder / "rubicap.yaml")
