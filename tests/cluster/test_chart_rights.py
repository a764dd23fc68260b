"""The chart's Role against what stages really ask of a cluster: nothing is refused, and nothing is allowed in vain."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rendered_chart import PRODUCTION, rendered, the

pytestmark = pytest.mark.cluster

TESTS = Path(__file__).parent.parent
RECORDER = '''
"""Notes what every test asked of its Kubernetes API."""
import json, os

def pytest_collection_finish(session):
    from kubernetes_api import KubernetesApi
    leave = KubernetesApi.__exit__

    def note(self, *how):
        with open(os.environ["ASKED"], "a") as file:
            file.writelines(json.dumps(asked) + "\\\\n" for asked in self.asked)
        return leave(self, *how)

    KubernetesApi.__exit__ = note
'''.replace("\\\\n", "\\n")
BY_METHOD = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}
OF_KUBEFLOW = {("argoproj.io", "workflowtaskresults"), ("", "configmaps"), ("", "secrets")}
"""What the launcher and Argo's executor need, which run in the same pods."""

Right = tuple[str, str, str]


def right(method: str, path: str) -> Right:
    """API group, resource and verb of a request, as the authorizer of Kubernetes sees it."""
    match = re.fullmatch(r"/(?:api|apis/([^/]+))/[^/]+/namespaces/[^/]+/([^/?]+)(?:/([^/?]+))?(?:/([^/?]+))?", path)
    assert match, path
    group, resource, name, below = match.groups()
    verb = BY_METHOD.get(method) or ("get" if name else "list")
    return group or "", f"{resource}/{below}" if below else resource, verb


def test_stages_may_do_what_they_do_and_no_more(tmp_path: Path) -> None:
    """Every request of a training with its server, of one taken up again, of a fan-out, and of served models."""
    (tmp_path / "asked_recorder.py").write_text(RECORDER)
    notes = tmp_path / "asked.jsonl"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "ASKED": str(notes)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "asked_recorder", "-p", "no:cacheprovider"]
    command += [
        str(TESTS / "kubernetes"),
        "-k",
        "log_is_read or preempted or together or whose_pod_was_killed or are_refused or refused_quota or kserve_gets",
    ]
    done = subprocess.run(command, env=environment, cwd=TESTS.parent, capture_output=True, text=True, timeout=550)
    assert notes.is_file(), done.stdout[-2000:]
    requests = {right(*json.loads(line)) for line in notes.read_text().splitlines()}
    allowed = {
        (group, resource, verb)
        for rule in the(rendered(PRODUCTION), "Role")["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if (group, resource) not in OF_KUBEFLOW
    }
    assert len(requests) > 8
    assert requests - allowed == set(), "the cluster would refuse these"
    assert allowed - requests == set(), "nobody asks for these"
