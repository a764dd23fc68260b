"""Multi-node training of a stage: create a TrainJob whose nodes run the same stage, and follow it.

The nodes open the run as this pod does, in the store or on a volume that all mount, and the first process finishes the
stage there. This pod trains nothing; it passes the nodes' logs on.
"""

import os
from typing import TYPE_CHECKING, Any

from rubricworks.errors import UserError
from rubricworks.kubernetes import TRAIN_JOB
from rubricworks.kubernetes.work import StageWork, log_line
from rubricworks.runtime.stage_table import STAGES
from rubricworks.training.config import TextRollouts, VllmServer

if TYPE_CHECKING:
    from rubricworks.kubernetes.config import TrainJobPlan


def train_job_plan(stage: str, config: Any) -> "TrainJobPlan | None":
    """Return the TrainJob plan from the environment, or None.

    Raises:
        UserError: the stage, or its configuration, cannot be trained on several nodes.
    """
    if not os.environ.get(TRAIN_JOB):
        return None
    from rubricworks.kubernetes.config import TrainJobPlan, plan_from_environment

    plan = plan_from_environment(TRAIN_JOB, TrainJobPlan)
    if plan is None:
        return None
    if not STAGES[stage].multi_node:
        raise UserError(f"{stage} does not train on several nodes; remove cluster.stages.{stage}.train_job")
    rollouts = getattr(getattr(config, "algorithm", None), "rollouts", None)
    vllm = rollouts.vllm if isinstance(rollouts, TextRollouts) else None
    if plan.job.rollouts is not None and not isinstance(vllm, VllmServer):
        given = f"has mode {vllm.mode}" if vllm else "is not set"
        raise UserError(
            f"train_job.rollouts starts a vLLM server, and the stage's algorithm.rollouts.vllm {given}; set it to "
            "{mode: server}, or remove train_job.rollouts"
        )
    return plan


def run_train_job(plan: "TrainJobPlan", work: StageWork) -> None:
    """Run the stage as a TrainJob and return when it has succeeded.

    Raises:
        UserError: the training failed; the message is that of the first node to fail.
    """
    from rubricworks.kubernetes.connection import connect
    from rubricworks.kubernetes.train_job_follower import follow_train_job

    cluster = connect(plan.namespace)
    each = f" with {plan.pod.accelerators} x {plan.pod.accelerator}" if plan.pod.accelerators else ""
    log_line(f"{work.stage}: trained on {plan.job.nodes} nodes{each} as {work.name} in namespace {cluster.namespace}")
    follow_train_job(cluster, plan, work)
