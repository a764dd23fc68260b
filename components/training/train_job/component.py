from kfp import dsl

from rubricworks.components.images import CPU


@dsl.component(base_image=CPU, install_kfp_package=False, packages_to_install=[])
def train_job(
    stage: str,
    config: str,
    run: str,
    inputs: dict,
    plan: str,
    view: dsl.Output[dsl.HTML],
    metrics: dsl.Output[dsl.Metrics],
) -> str:
    """Train a stage on several nodes: make a Kubeflow TrainJob, follow it and say what it says.

    The pipelines of this package need no such task: there, `train_job` in a stage's placement does it.

    Args:
        stage: the training stage, such as train_policy.
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        inputs: name to URI of what the stage reads: samples, rubrics, model.
        plan: nodes, image and pool as JSON (a `TrainJobPlan`).
        view: the stage's page.
        metrics: the stage's figures.

    Returns:
        URI of the folder that holds the trained policy.
    """
    import os

    from rubricworks.kubernetes import TRAIN_JOB
    from rubricworks.runtime.launch import launch

    os.environ[TRAIN_JOB] = plan
    return launch(stage, config, run, inputs, view=view.path, metrics=metrics.log_metric)
