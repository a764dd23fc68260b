"""The versions of MLflow that the docs speak of are those that are installed and those that the trial starts."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def test_docs_name_client_and_trial_server_of_one_major_version():
    (client,) = re.findall(r"^mlflow==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    values = yaml.safe_load((ROOT / "charts" / "rubricworks" / "values.yaml").read_text())
    server = values["trial"]["mlflow"]["image"]["tag"].removeprefix("v").removesuffix("-full")
    page = " ".join((ROOT / "docs" / "kubernetes.md").read_text().split())
    assert f"the client's version, {client} (`constraints.txt`)" in page
    assert f"The trial's server is {server}," in page
    assert client.split(".")[0] == server.split(".")[0]
