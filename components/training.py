"""Components that train: warm-ups, policies, reward models, generators, pretraining."""

from kfp import dsl

from rubricworks.components.declaration import component
from rubricworks.components.images import CPU

warm_up = component(
    "warm_up",
    "Teach the base model to caption at all; a model that is a captioner already passes through unchanged.",
    "URI of the folder that holds the model every later stage starts from.",
    samples="URI of the samples table; its references are what the model first learns from.",
)
train_policy = component(
    "train_policy",
    "Train the policy by group-relative policy optimisation on rewards graded from the rubrics.",
    "URI of the folder that holds the trained policy.",
    captions="URI of the committee's captions, for refreshing rubrics during training.",
)
train_balcaprl = component(
    "train_balcaprl",
    "Train the policy on precision, recall and linguistic quality of its captions, each normalised for itself.",
    "URI of the folder that holds the trained policy.",
    samples="URI of the samples table; the first reference of each training sample is what captions are measured by.",
    exams="URI of the exams table, for the reward of right answers.",
    rubrics="URI of the rubrics table, for the reward of captions that meet them.",
)
train_rlvr = component(
    "train_rlvr",
    "Train the baseline on verified final answers alone.",
    "URI of the folder that holds the trained policy.",
)
train_rlr3 = component(
    "train_rlr3",
    "Train the policy on checklist rewards, remapped and gated within each group.",
    "URI of the folder that holds the trained policy.",
)
train_genrm = component(
    "train_genrm",
    "Train a generative reward model to execute checklists, and test it beside its base and an SFT baseline.",
    "URI of the folder that holds the trained reward model.",
)
pretrain_generator = component(
    "pretrain_generator",
    "Build and pretrain a small image generator, or pass on one that exists.",
    "URI of the folder that holds the generator.",
)
train_generator = component(
    "train_generator",
    "Train an image generator on the rubrics of its prompts.",
    "URI of the folder that holds the trained generator.",
    model="URI of the generator to start from.",
)
align_projector = component(
    "align_projector",
    "Assemble a LLaVA model and train its projector alone (stage 1).",
    "URI of the folder that holds the trained model.",
)
pretrain_vlm = component(
    "pretrain_vlm",
    "Train the whole model on one captioner's captions (stage 1.5).",
    "URI of the folder that holds the trained model.",
)
pretrain_baseline = component(
    "pretrain_baseline",
    "Train the whole model on the baseline's captions (stage 1.5).",
    "URI of the folder that holds the trained model.",
)
tune_vlm = component(
    "tune_vlm",
    "Tune the model on instructions or visual questions (stage 2).",
    "URI of the folder that holds the trained model.",
)
tune_baseline = component(
    "tune_baseline",
    "Tune the baseline on the same instructions or questions (stage 2).",
    "URI of the folder that holds the trained model.",
)


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
