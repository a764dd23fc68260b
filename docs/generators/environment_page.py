"""Reference page of environment variables: those that people set."""

from rubricworks.platform_api.settings import ApiSettings
from rubricworks.recipe.schema import field_docs

_INTRO = """# Environment variables

Set these where the program runs: in a shell, in a pod, or in a recipe's `cluster:` section. A recipe can use any
variable as `${NAME}`. Its value is filled in on use and never stored.
"""
SECTIONS = {
    "Command line": {
        "RUBRICWORKS_API": "Address of a server; `runs`, `promote`, `study`, `rubrics` and `schedules` act on it.",
        "RUBRICWORKS_API_TOKEN": "Token for that server; by default the one that `rubricworks login` stored.",
        "RUBRICWORKS_KUBEFLOW": "Address of Kubeflow Pipelines, for recipes that name none.",
        "RUBRICWORKS_KUBEFLOW_NAMESPACE": "Kubeflow profile of the runs.",
        "RUBRICWORKS_KUBEFLOW_TOKEN": "Bearer token for Kubeflow Pipelines.",
        "RUBRICWORKS_LINEAGE_KEY": "Key that signs the recipe in a model version's tags, for retraining.",
        "RUBRICWORKS_SIGNING_KEY": "Key that signs registered models, or verifies them: a PEM file or its text.",
        "RUBRICWORKS_WORKSPACE": "Folder for files of runs in a bucket; by default one in the temporary directory.",
        "RUBRICWORKS_ACCELERATORS": "Processes of a training on this machine, one per GPU.",
        "RUBRICWORKS_METRICS_PORT": "Port at which a run serves Prometheus metrics; none by default.",
        "RUBRICWORKS_METRICS_HOST": "Address that the metrics listen on; by default 127.0.0.1.",
        "RUBRICWORKS_PUSH_SECONDS": "Seconds between two uploads of a running stage's files.",
        "RUBRICWORKS_VLLM_URL": "Address of the rollout server of a training, instead of the recipe's.",
        "RUBRICWORKS_LMMS_EVAL": "Python of an environment in which lmms-eval is installed.",
        "RUBRICWORKS_VLMEVAL": "Python of an environment in which ms-vlmeval is installed.",
        "RUBRICWORKS_WORLD_URL": "Address of the scene world; `world serve` and recipes with `world:` set it.",
        "RUBRICWORKS_WORLD_DIR": "Folder of the scene world; set with RUBRICWORKS_WORLD_URL.",
        "RUBRICWORKS_IMAGES": "Images, in recipes that `rubricworks init` starts from.",
        "RUBRICWORKS_ENDPOINT": "Endpoint, in recipes that `rubricworks init` starts from.",
    },
    "Storage": {
        "RUBRICWORKS_S3_ENDPOINT": "S3 server; then `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`, then Amazon's.",
        "RUBRICWORKS_S3_CA_FILE": "Certificates to trust; then `AWS_CA_BUNDLE`, `SSL_CERT_FILE`.",
        "RUBRICWORKS_S3_SSE": "Server-side encryption: `s3`, `kms:KEY-ID`, or `c` with your own key.",
        "RUBRICWORKS_S3_SSE_KEY": "Your key for `c`: 32 bytes as base64.",
        "RUBRICWORKS_S3_SSE_KEY_FILE": "File with that key.",
        "RUBRICWORKS_S3_ADDRESSING": "`virtual` puts the bucket into the host name; `path` is the default.",
        "RUBRICWORKS_S3_ANONYMOUS": "`true` reads public buckets without credentials.",
        "RUBRICWORKS_S3_PATIENCE": "Seconds for which requests to a failing server are retried.",
    },
    "Server": {
        "RUBRICWORKS_OIDC_SECRET": "Secret of the OIDC client, if the project file names this variable.",
    },
}
INTERNAL = {
    *("RUBRICWORKS_ATTEMPT", "RUBRICWORKS_FAN_OUT", "RUBRICWORKS_LAST_WORDS", "RUBRICWORKS_NODE"),
    *("RUBRICWORKS_PARENT", "RUBRICWORKS_PART", "RUBRICWORKS_REHEARSAL", "RUBRICWORKS_SERVE"),
    *("RUBRICWORKS_SERVED_", "RUBRICWORKS_SERVING", "RUBRICWORKS_SLEEPING", "RUBRICWORKS_STAGE_STARTED"),
    *("RUBRICWORKS_TRACKED_RUN", "RUBRICWORKS_TRAIN_JOB", "RUBRICWORKS_WEIGHTS_TOKEN"),
}
"""Variables that Rubricworks sets for its own processes and pods."""


def environment_page() -> str:
    """The page as Markdown."""
    parts = [_INTRO]
    for title, variables in SECTIONS.items():
        rows = variables | (_server_variables() if title == "Server" else {})
        parts += [f"## {title}", "", "| variable | meaning |", "|---|---|"]
        parts += [f"| `{name}` | {meaning} |" for name, meaning in sorted(rows.items())]
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def _server_variables() -> dict[str, str]:
    """Variables of the server's settings, whose docstrings name them."""
    texts = (text.partition(": ") for text in field_docs(ApiSettings).values())
    return {
        name: meaning[:1].upper() + meaning[1:] for name, colon, meaning in texts if name.startswith("RUBRICWORKS_")
    }
