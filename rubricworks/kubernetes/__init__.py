"""Work on several pods: TrainJobs and Indexed Jobs, made, followed, taken up again and cleaned up."""

from rubricworks.kubernetes.config import (
    FAN_OUT,
    TRAIN_JOB,
    FanOutConfig,
    FanOutPlan,
    PodPlan,
    RolloutServer,
    TrainJobConfig,
    TrainJobPlan,
    plan_from_environment,
)

__all__ = [
    "FAN_OUT",
    "TRAIN_JOB",
    "FanOutConfig",
    "FanOutPlan",
    "PodPlan",
    "RolloutServer",
    "TrainJobConfig",
    "TrainJobPlan",
    "plan_from_environment",
]
