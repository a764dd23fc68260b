"""Image names on a cluster: with a registry, since nodes look for any other name on a public hub."""

from rubricworks.errors import UserError
from rubricworks.recipe.cluster import ClusterConfig


def image_on_cluster(role: str, default: str, cluster: ClusterConfig) -> str:
    """Image of a role as the cluster's nodes pull it.

    Args:
        role: field of `cluster.images`.
        default: name that `make images` gives it.
    Raises:
        UserError: the name has no registry, so that anybody's image of that name on a public hub would run with the
            run's secrets. With `pull_policy: Never` nothing is pulled, and any name is valid.
    """
    image: str | None = getattr(cluster.images, role)
    if cluster.images.pull_policy == "Never" or (image and _has_registry(image)):
        return image or default
    state = f"cluster.images.{role} is {image!r}" if image else f"cluster.images.{role} is not set"
    raise UserError(
        f"{state}, and nodes would look for {image or default} on a public hub; name your registry, as in "
        f"cluster.images: {{{role}: registry.example/team/{image or default}}} (docker/build.sh pushes it), or set "
        "cluster.images.pull_policy: Never where every node holds it"
    )


def _has_registry(image: str) -> bool:
    """Return True if the part before the first slash is a host, by the rule of the container runtimes."""
    host, slash, _ = image.partition("/")
    return bool(slash) and ("." in host or ":" in host or host == "localhost")
