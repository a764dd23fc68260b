"""The `kubeflow:` part of a recipe: address of an installation, and credentials."""

from pydantic import BaseModel, ConfigDict

from rubricworks.recipe.placement import Namespace, Variable


class KubeflowConfig(BaseModel):
    """Address of Kubeflow Pipelines, and the credentials for it."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    url: str = "${RUBRICWORKS_KUBEFLOW}"
    """URL of the Pipelines API."""
    ui: str | None = None
    """URL of its web pages, for links; by default the API's."""
    namespace: Namespace | None = None
    """Profile that the runs belong to; by default the cluster's, else RUBRICWORKS_KUBEFLOW_NAMESPACE."""
    token_env: Variable | None = None
    """Environment variable that holds a bearer token; by default RUBRICWORKS_KUBEFLOW_TOKEN."""
    token_file: str | None = None
    """File that holds a token and may be renewed, such as a projected service account token."""
    cookie_env: Variable | None = None
    """Environment variable that holds the Cookie header of a session, for an installation behind a login page."""
    ca_file: str | None = None
    """File of certificate authorities; by default the system's."""
