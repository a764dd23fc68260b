"""Lineage of a stage's output, as metadata of its artifact on Kubeflow's pages.

Stages hand each other URIs, not Kubeflow's artifacts, which would be copied from pod to pod. So the artifact holds no
content: its metadata names the table or the model, its digest, and the digests of what it was made from, which are
those of earlier artifacts. Its own URI stays Kubeflow's, which takes none outside the pipeline root's bucket.
"""

import json
from pathlib import Path

from rubricworks.data.manifest import MANIFEST, read_manifest
from rubricworks.runtime.job import DONE, model_dir


def output_lineage(out: Path, uri: str) -> dict[str, str | int]:
    """Return the metadata of a finished stage's artifact.

    Args:
        out: the stage's folder on this machine.
        uri: its URI.
    """
    done = json.loads((out / DONE).read_bytes())
    place = f"{uri}/model" if model_dir(out).is_dir() else uri
    metadata: dict[str, str | int] = {"uri": place, **{name: done[name] for name in ("digest", "stage", "version")}}
    metadata["config_digest"] = done["config"]
    metadata |= {f"{name}_digest": digest for name, digest in done["inputs"].items()}
    if (out / MANIFEST).is_file():
        manifest = read_manifest(out)
        metadata |= {"table": manifest.table, "rows": manifest.rows}
    return metadata
