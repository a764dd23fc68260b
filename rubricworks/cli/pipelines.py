"""`rubricworks pipelines`: pipelines and components compiled for Kubeflow, and uploaded."""

from datetime import UTC, datetime
from pathlib import Path

import click

from rubricworks import __version__
from rubricworks.cli.options import report_line
from rubricworks.errors import UserError
from rubricworks.kubeflow.planned_cluster import placement_warnings, planned_cluster
from rubricworks.kubeflow.recipe_runs import cluster_of, connect_to_cluster, push_recipe
from rubricworks.recipe import METHODS, ClusterConfig
from rubricworks.recipe.files import built_in_recipes, load_recipe, recipe_path


@click.group()
def pipelines() -> None:
    """Compile pipelines for Kubeflow, and push them there."""


@pipelines.command("compile")
@click.argument("names", nargs=-1, metavar="[RECIPE|PIPELINE]...")
@click.option("--set", "overrides", multiple=True, metavar="A.B=C", help="Change a field of the recipes.")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=Path("compiled"), show_default=True,
    help="Folder of the files.",
)  # fmt: skip
def compile_(names: tuple[str, ...], overrides: tuple[str, ...], out: Path) -> None:
    """Write pipelines as YAML that `kfp` and the Kubeflow UI take; the same bytes every time.

    A RECIPE's pipeline is written with the placement of the recipe's `cluster:` section, a PIPELINE without any.
    Without an argument, every pipeline is written.

    \b
    rubricworks pipelines compile
    rubricworks pipelines compile my.yaml --set cluster.queue=team-b
    """
    from rubricworks.kubeflow.compile import compile_pipeline, load_pipeline

    targets = [_target(name, overrides) for name in names] or [(name, name, None) for name in METHODS]
    for name, pipeline, cluster in targets:
        path = out / f"{name}.yaml"
        compile_pipeline(load_pipeline(pipeline), path, cluster)
        click.echo(path)


@pipelines.command()
@click.argument("recipe")
@click.option("--set", "overrides", multiple=True, metavar="A.B=C", help="Change a field of the recipe.")
@click.option("--version", metavar="NAME", help="Name of the version; by default its content and the git revision.")
def push(recipe: str, overrides: tuple[str, ...], version: str | None) -> None:
    """Upload RECIPE's pipeline to Kubeflow as a version that is never changed; the same content is uploaded once.

    \b
    rubricworks pipelines push my.yaml
    """
    parsed = load_recipe(recipe_path(recipe), overrides)
    kubeflow = connect_to_cluster(cluster_of(parsed, recipe), report_line)
    click.echo(push_recipe(kubeflow, parsed, recipe, report_line, version_name=version).name)


@pipelines.command()
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=Path("compiled/components"), show_default=True,
    help="Folder of the catalogue.",
)  # fmt: skip
@click.option("--owner", "owners", multiple=True, required=True, metavar="NAME", help="Who approves changes there.")
def components(out: Path, owners: tuple[str, ...]) -> None:
    """Write every component as a catalogue of Kubeflow components takes it: definition, metadata, owners and a page.

    \b
    rubricworks pipelines components --owner octocat
    """
    from rubricworks.kubeflow.component_export import export_components

    today = datetime.now(UTC).date()
    for place in export_components(out, version=__version__, verified=today, owners=owners):
        click.echo(place)


def _target(name: str, overrides: tuple[str, ...]) -> tuple[str, str, ClusterConfig | None]:
    """Name of the file, pipeline and cluster of an argument.

    A name that a recipe and a pipeline share means the pipeline if the recipe has no cluster.
    """
    if name in METHODS and not Path(name).is_file() and name not in {file.stem for file in built_in_recipes()}:
        return name, name, None
    recipe = load_recipe(recipe_path(name), overrides)
    if recipe.cluster:
        for warning in placement_warnings(recipe):
            report_line(f"warning: {warning}")
        return recipe.name, recipe.pipeline, planned_cluster(recipe, recipe.cluster)
    if name in METHODS:
        return name, name, None
    raise UserError(
        f"{name}: the recipe has no cluster: section, which says where its stages run; add one "
        "(docs/cluster.md; the end of `rubricworks recipes show rubicap` has one to begin with), or "
        f"compile the pipeline alone: rubricworks pipelines compile {recipe.pipeline}"
    )
