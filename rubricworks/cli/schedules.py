"""`rubricworks schedules`: recurring runs on Kubeflow."""

import click

from rubricworks.cli.options import cluster_option, report_line
from rubricworks.kubeflow.recipe_runs import (
    cluster_of,
    connect_by_recipe,
    connect_to_cluster,
    push_recipe,
    run_arguments,
)
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.terminal import echo


@click.group()
def schedules() -> None:
    """Schedule runs on Kubeflow, one at a time; missed runs are skipped."""


@schedules.command()
@click.argument("recipe")
@click.option(
    "--cron", required=True, metavar="CRON", help="Five fields, minute first: '0 3 * * 1' is Mondays at 03:00."
)
@click.option("--name", metavar="NAME", help="Name of the schedule; by default the recipe's.")
@click.option("--set", "overrides", multiple=True, metavar="A.B=C", help="Change a field of the recipe.")
@click.option("--paused", is_flag=True, help="Start no run before `schedules resume`.")
def create(recipe: str, cron: str, name: str | None, overrides: tuple[str, ...], paused: bool) -> None:
    """Run RECIPE's pipeline, as it is now, at the times of CRON.

    \b
    rubricworks schedules create retrain.yaml --cron '0 3 * * 1'
    """
    from rubricworks.kubeflow.cron import kubeflow_cron
    from rubricworks.kubeflow.schedules import create_schedule
    from rubricworks.runtime.run_uri import RUN_ID

    parsed = load_recipe(recipe_path(recipe), overrides)
    cluster = cluster_of(parsed, recipe)
    kubeflow_cron(cron)  # refuse a wrong one before anything is sent
    name = name or parsed.name
    kubeflow = connect_to_cluster(cluster, report_line)
    schedule = create_schedule(
        kubeflow,
        name,
        cron,
        push_recipe(kubeflow, parsed, recipe, report_line),
        run_arguments(parsed, cluster, f"{name}-{RUN_ID}"),
        experiment=parsed.tracking.experiment,
        on=not paused,
        service_account=cluster.service_account,
        pipeline_root=cluster.pipeline_root,
    )
    echo(f"schedule {schedule.name}: {schedule.cron}{'' if schedule.on else ', paused'}")


@schedules.command("list")
@cluster_option
def list_(recipe: str | None) -> None:
    """List the schedules, with cron and state."""
    from rubricworks.kubeflow.schedules import list_schedules

    rows = list_schedules(connect_by_recipe(recipe))
    width = max((len(row.name) for row in rows), default=0)
    for row in rows:
        state = "on" if row.on else "paused"
        echo(f"{row.name:<{width}}  {row.cron:<15}  {state:<6}  {row.id}{f'  {row.error}' if row.error else ''}")
    if not rows:
        echo("no schedules; `rubricworks schedules create RECIPE --cron …` makes one", err=True)


@schedules.command()
@click.argument("name")
@cluster_option
def pause(name: str, recipe: str | None) -> None:
    """Start no more runs of NAME; a run in progress is not stopped."""
    from rubricworks.kubeflow.schedules import pause_schedule

    echo(f"schedule {pause_schedule(connect_by_recipe(recipe), name).name} is paused")


@schedules.command()
@click.argument("name")
@cluster_option
def resume(name: str, recipe: str | None) -> None:
    """Start runs of NAME again, from its next time on."""
    from rubricworks.kubeflow.schedules import resume_schedule

    echo(f"schedule {resume_schedule(connect_by_recipe(recipe), name).name} is on")


@schedules.command()
@click.argument("name")
@cluster_option
def delete(name: str, recipe: str | None) -> None:
    """Delete the schedule NAME; its runs are kept."""
    from rubricworks.kubeflow.schedules import delete_schedule

    echo(f"schedule {delete_schedule(connect_by_recipe(recipe), name).name} is deleted; its runs stay")
