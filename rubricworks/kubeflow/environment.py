"""Variables, labels and workspace of a stage's pod, for Kubeflow's pods and for the Jobs of a stage."""

from rubricworks.recipe.cluster import WORKSPACE, ClusterConfig
from rubricworks.recipe.placement import PoolConfig, StagePlacement
from rubricworks.runtime.accelerators import ACCELERATORS_ENV

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


def variables_of(cluster: ClusterConfig, placement: StagePlacement) -> dict[str, str]:
    """Environment variables of rubricworks, overridden by the cluster's, overridden by the stage's."""
    variables = {"RUBRICWORKS_WORKSPACE": WORKSPACE, "OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}
    if placement.accelerators:
        variables[ACCELERATORS_ENV] = str(placement.accelerators)
    return {**variables, **cluster.env, **placement.env}


def labels_of(stage: str, cluster: ClusterConfig, placement: StagePlacement, pool: PoolConfig) -> dict[str, str]:
    """Labels of the stage and of the Kueue queue that admits the pod."""
    labels = {"app.kubernetes.io/part-of": "rubricworks", "rubricworks.dev/stage": stage}
    if queue := pool.queue or cluster.queue:
        labels[QUEUE_LABEL] = queue
    return {**labels, **cluster.labels, **placement.labels}
