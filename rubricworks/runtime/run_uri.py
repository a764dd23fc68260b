"""URI of a run's folder whose name is known only when it starts, since a schedule passes the same arguments to all its
runs.
"""

RUN_ID = "${KUBEFLOW_RUN_ID}"
"""Placeholder of Kubeflow's run id in a run's URI; `preflight` resolves it for all stages, `outcome` for itself."""


def resolve_run_id(run: str, run_id: str) -> str:
    """Return the URI of a run's folder with Kubeflow's id of the run filled in.

    Kubeflow replaces `{{$.pipeline_job_uuid}}` only where it is a whole argument of a task, so it is one of these two.
    """
    return run.replace(RUN_ID, run_id)
