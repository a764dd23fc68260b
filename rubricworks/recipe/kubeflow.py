"""The way to a Kubeflow installation: where it answers and who asks."""

from pydantic import BaseModel, ConfigDict

from rubricworks.recipe.placement import Name, Variable


class KubeflowConfig(BaseModel):
    """Kubeflow Pipelines' address and how to be let in."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    url: str = "${RUBRICWORKS_KUBEFLOW}"
    """Of the Pipelines API."""
    ui: str | None = None
    """Of its web pages, for links; the API's own by default."""
    namespace: Name | None = None
    """The profile whose runs these are; by default the cluster's, else RUBRICWORKS_KUBEFLOW_NAMESPACE."""
    token_env: Variable | None = None
    """Environment variable that holds a bearer token; RUBRICWORKS_KUBEFLOW_TOKEN counts where none is named."""
    token_file: str | None = None
    """File that holds one and may be renewed, such as a projected service account token."""
    cookie_env: Variable | None = None
    """Environment variable that holds the Cookie header of a session, where a login page stands in front."""
    ca_file: str | None = None
    """Certificates that the server's is checked against; the system's by default."""
