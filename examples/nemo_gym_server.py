"""A resources server of NeMo Gym that grades responses by the rubrics of their rows.

Copy it to resources_servers/rubric/app.py, and the configuration below to resources_servers/rubric/configs/rubric.yaml:

    rubric:
      resources_servers:
        rubric:
          entrypoint: app.py
          domain: other
          judges: [{url: "http://localhost:8000/v1", model: Qwen/Qwen2.5-7B-Instruct}]

A row of the data has `responses_create_params` and `rubric`, a list of criteria. `gym_rows` makes rows of a rubric set.
"""

from collections.abc import Iterator
from typing import Any

from rubricworks.adapters.nemo_gym import RubricResourcesServer
from rubricworks.data.rubric_sets import read_rubric_set


def gym_rows(rubrics: str) -> Iterator[dict[str, Any]]:
    for entry in read_rubric_set(rubrics, note=str):
        asked = {"input": [{"role": "user", "content": entry.prompt}]}
        criteria = [criterion.model_dump() for criterion in entry.rubric.criteria]
        yield {"responses_create_params": asked, "sample_id": entry.sample_id, "rubric": criteria}


if __name__ == "__main__":
    RubricResourcesServer.run_webserver()
