"""`rubricworks pipelines`: the DAGs as Kubeflow Pipelines reads them."""

import importlib
from pathlib import Path

import click

from rubricworks.recipe import RECIPES


@click.group()
def pipelines() -> None:
    """Compile pipelines for Kubeflow."""


@pipelines.command("compile")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=Path("compiled"))
def compile_(folder: Path) -> None:
    """Write every pipeline into FOLDER as YAML that `kfp` and the Kubeflow UI take; the same bytes every time."""
    from rubricworks.pipelines.compile import compile_pipeline

    for name in RECIPES:
        path = folder / f"{name}.yaml"
        compile_pipeline(getattr(importlib.import_module(f"rubricworks.pipelines.{name}"), name), path)
        click.echo(path)
