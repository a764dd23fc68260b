"""Environment of a stage's pod on a cluster, whoever makes the pod: variables, labels, workspace."""

from rubricworks.recipe.cluster import ClusterConfig
from rubricworks.recipe.placement import PoolConfig, StagePlacement
from rubricworks.runtime.accelerators import ACCELERATORS_ENV

WORKSPACE = "/rubricworks/workspace"
"""Where a stage keeps its files while it works."""
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


def variables_of(cluster: ClusterConfig, asked: StagePlacement) -> dict[str, str]:
    """Variables of rubricworks, then the cluster's, then the stage's own; a later one wins."""
    ours = {"RUBRICWORKS_WORKSPACE": WORKSPACE, "OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}
    if asked.accelerators:
        ours[ACCELERATORS_ENV] = str(asked.accelerators)
    return {**ours, **cluster.env, **asked.env}


def labels_of(stage: str, cluster: ClusterConfig, asked: StagePlacement, pool: PoolConfig) -> dict[str, str]:
    """Labels that name the stage, and the queue that admits the pod."""
    labels = {"app.kubernetes.io/part-of": "rubricworks", "rubricworks.dev/stage": stage}
    if queue := pool.queue or cluster.queue:
        labels[QUEUE_LABEL] = queue
    return {**labels, **cluster.labels, **asked.labels}
