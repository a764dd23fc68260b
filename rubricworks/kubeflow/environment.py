"""What a stage's pod finds around it on a cluster, whoever makes the pod: variables, labels, its workspace."""

from rubricworks.recipe.cluster import ClusterConfig
from rubricworks.recipe.placement import PoolConfig, StagePlacement
from rubricworks.runtime.accelerators import ACCELERATORS_ENV

WORKSPACE = "/rubricworks/workspace"
"""Where a stage keeps its files while it works."""
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


def variables_of(cluster: ClusterConfig, asked: StagePlacement) -> dict[str, str]:
    """Ours, then the cluster's, then the stage's own; a later one wins."""
    ours = {"RUBRICWORKS_WORKSPACE": WORKSPACE, "OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}
    if asked.accelerators:
        ours[ACCELERATORS_ENV] = str(asked.accelerators)
    return {**ours, **cluster.env, **asked.env}


def labels_of(stage: str, cluster: ClusterConfig, asked: StagePlacement, pool: PoolConfig) -> dict[str, str]:
    """Whose pod it is, and the queue that admits it."""
    labels = {"app.kubernetes.io/part-of": "rubricworks", "rubricworks.dev/stage": stage}
    if queue := pool.queue or cluster.queue:
        labels[QUEUE_LABEL] = queue
    return {**labels, **cluster.labels, **asked.labels}
