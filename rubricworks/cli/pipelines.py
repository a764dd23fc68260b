"""`rubricworks pipelines`: pipelines and components compiled for Kubeflow, and uploaded."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import click

from rubricworks import __version__
from rubricworks.cli.options import report_line
from rubricworks.errors import UserError
from rubricworks.kubeflow.planned_cluster import placement_warnings, planned_cluster
from rubricworks.kubeflow.recipe_runs import cluster_of, connect_to_cluster, push_recipe
from rubricworks.recipe import METHODS, ClusterConfig
from rubricworks.recipe.files import built_in_recipes, load_recipe, recipe_path
from rubricworks.runtime.stage_table import NOT_REUSABLE
from rubricworks.terminal import echo

_ARM = click.option(
    "--arm", metavar="NAME", help="Take one of the recipe's arms, without the stages that promote and report."
)


class _Target(NamedTuple):
    """One pipeline to compile."""

    file: str
    """Name of the file, without its ending."""
    pipeline: str
    cluster: ClusterConfig | None = None
    without: Collection[str] = ()
    served: Mapping[str, Collection[str]] = MappingProxyType({})
    """Name of each model that the run serves → stages that call it."""
    """Stages that an arm does not have."""


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
@_ARM
def compile_(names: tuple[str, ...], overrides: tuple[str, ...], out: Path, arm: str | None) -> None:
    """Write pipelines as YAML that `kfp` and the Kubeflow UI take; the same bytes every time.

    A RECIPE's pipeline is written with the placement of the recipe's `cluster:` section, a PIPELINE without any.
    Without an argument, every pipeline is written.

    \b
    rubricworks pipelines compile
    rubricworks pipelines compile my.yaml --set cluster.queue=team-b
    rubricworks pipelines compile my.yaml --arm rouge_l
    """
    from rubricworks.kubeflow.compile import compile_pipeline, load_pipeline

    if arm is not None and len(names) != 1:
        raise UserError(f"--arm {arm} is of one recipe; name that recipe alone")
    targets = [_target(name, overrides, arm) for name in names] or [_Target(name, name) for name in METHODS]
    for target in targets:
        path = out / f"{target.file}.yaml"
        pipeline = load_pipeline(target.pipeline)
        compile_pipeline(pipeline, path, target.cluster, without=target.without, served=target.served)
        echo(str(path))


@pipelines.command()
@click.argument("recipe")
@click.option("--set", "overrides", multiple=True, metavar="A.B=C", help="Change a field of the recipe.")
@click.option("--version", metavar="NAME", help="Name of the version; by default its content and the git revision.")
@_ARM
def push(recipe: str, overrides: tuple[str, ...], version: str | None, arm: str | None) -> None:
    """Upload RECIPE's pipeline to Kubeflow as a version that is never changed; the same content is uploaded once.

    \b
    rubricworks pipelines push my.yaml
    """
    parsed = load_recipe(recipe_path(recipe), overrides, arm=arm)
    kubeflow = connect_to_cluster(cluster_of(parsed, recipe), report_line)
    echo(push_recipe(kubeflow, parsed, recipe, report_line, version_name=version).name)


@pipelines.command()
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=Path("compiled/components"), show_default=True,
    help="Folder of the catalogue.",
)  # fmt: skip
@click.option("--owner", "owners", multiple=True, required=True, metavar="NAME", help="Owner of the components.")
def components(out: Path, owners: tuple[str, ...]) -> None:
    """Write every component as a catalogue of Kubeflow components takes it: definition, metadata, owners and a page.

    \b
    rubricworks pipelines components --owner octocat
    """
    from rubricworks.kubeflow.component_export import export_components

    today = datetime.now(UTC).date()
    for place in export_components(out, version=__version__, verified=today, owners=owners):
        echo(str(place))


def _target(name: str, overrides: tuple[str, ...], arm: str | None) -> _Target:
    """Pipeline and cluster of an argument.

    A name that a recipe and a pipeline share means the pipeline if the recipe has no cluster.
    """
    if name in METHODS and not Path(name).is_file() and name not in {file.stem for file in built_in_recipes()}:
        if arm is not None:
            raise UserError(f"--arm {arm}: {name} is a pipeline, and arms are a recipe's; name a recipe")
        return _Target(name, name)
    recipe = load_recipe(recipe_path(name), overrides, arm=arm)
    without = () if arm is None else NOT_REUSABLE
    if recipe.cluster:
        for warning in placement_warnings(recipe):
            report_line(f"warning: {warning}")
        cluster, served = planned_cluster(recipe, recipe.cluster), recipe.served_callers()
        return _Target(recipe.run_prefix, recipe.pipeline, cluster, without, served)
    if name in METHODS:
        return _Target(recipe.run_prefix if arm else name, name, None, without)
    raise UserError(
        f"{name}: the recipe has no cluster: section, which says where its stages run; add one "
        "(docs/cluster.md; the end of `rubricworks recipes show rubicap` has one to begin with), or "
        f"compile the pipeline alone: rubricworks pipelines compile {recipe.pipeline}"
    )
