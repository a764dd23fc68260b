"""The order in which Helm, Flux and Argo CD make the chart's objects: no pod waits for one that comes only after it.

Helm (`pkg/action/install.go`, 3 and 4): hooks before, then all other objects, then `--wait` until they are ready, then
hooks after. Flux waits by default, for Jobs too. Argo CD (`docs/user-guide/{helm,sync-waves}.md`): the phases PreSync,
Sync and PostSync, each after the one before is healthy; its own annotations replace Helm's, whose hooks of tests it
leaves out, and every rendering is revision 1.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from rendered_chart import MATRIX, PRODUCTION, SEAWEED, TRIAL, containers, merged, of_kind, pod_templates, rendered, the

pytestmark = pytest.mark.cluster

HELM, ARGO = "helm.sh/hook", "argocd.argoproj.io/hook"
HELM_PHASES: Mapping[str, Mapping[str, int]] = {
    "helm install": {"pre-install": 0, "": 1, "post-install": 2},
    "helm upgrade": {"pre-upgrade": 0, "": 1, "post-upgrade": 2},
}
ARGO_PHASES = {"PreSync": 0, "Sync": 1, "": 1, "PostSync": 2}
SAME_AS_ARGO = {"pre-install": "PreSync", "pre-upgrade": "PreSync", "post-install": "PostSync"}
TOOLS = ["helm install", "helm upgrade", "argo"]


def phases(item: Mapping[str, Any], tool: str) -> list[int]:
    """Phases in which a tool makes an object; none for one that it leaves out."""
    annotations = item["metadata"].get("annotations", {})
    helm = [hook.strip() for hook in annotations.get(HELM, "").split(",")]
    if tool == "argo":
        argo = annotations.get(ARGO, "").split(",")
        hooks = argo if ARGO in annotations or HELM not in annotations else [SAME_AS_ARGO.get(hook) for hook in helm]
        return [ARGO_PHASES[hook] for hook in hooks if hook in ARGO_PHASES]
    return [HELM_PHASES[tool][hook] for hook in helm if hook in HELM_PHASES[tool]]


def needs(objects: list[dict[str, Any]], template: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Objects without which a pod does not start or, for the API and MLflow, is not ready."""
    spec, component = template["spec"], template["metadata"]["labels"]["app.kubernetes.io/component"]
    named = {("ServiceAccount", spec["serviceAccountName"])}
    for volume in spec["volumes"]:
        named |= {("PersistentVolumeClaim", volume.get("persistentVolumeClaim", {}).get("claimName"))}
        named |= {("ConfigMap", volume.get("configMap", {}).get("name"))}
    yield from (item for item in objects if (item["kind"], item["metadata"]["name"]) in named)
    for policy in of_kind(objects, "NetworkPolicy"):
        selected = policy["spec"]["podSelector"].get("matchLabels", {})
        if selected.items() <= template["metadata"]["labels"].items():
            yield policy
    # /readyz is 503 until the tables and the bucket are there: test_api_postgres.py, test_chart_programs.py.
    jobs = {"api": ("migration", "buckets", "store"), "buckets": ("store",)}.get(component, ())
    yield from (
        item
        for item in objects
        if item["kind"] != "NetworkPolicy" and item["metadata"]["labels"]["app.kubernetes.io/component"] in jobs
    )


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("case", MATRIX)
def test_nothing_that_a_pod_needs_comes_after_the_wait_for_that_pod(case: str, tool: str) -> None:
    new = rendered(MATRIX[case], revision=2 if tool == "helm upgrade" else 1)
    # An upgrade finds what the revision before has made.
    there = {(item["kind"], item["metadata"]["name"]) for item in rendered(MATRIX[case])}
    checked = 0
    for item in new:
        for where, template in pod_templates([item]):
            for need in needs(new, template) if (made := phases(item, tool)) else ():
                if tool != "helm upgrade" or (need["kind"], need["metadata"]["name"]) not in there:
                    assert min(phases(need, tool)) <= min(made), f"{where} waits for {need['metadata']['name']}"
                checked += 1
    assert checked >= (0 if case == "little" else 8)


@pytest.mark.parametrize("values", [PRODUCTION, TRIAL, SEAWEED], ids=["production", "trial", "seaweedfs"])
def test_jobs_run_at_each_revision_of_helm_and_each_sync_of_argo(values: Mapping[str, Any]) -> None:
    first, second = (
        {job["metadata"]["name"]: job for job in of_kind(rendered(values, revision=n), "Job")} for n in (1, 2)
    )
    assert first
    assert not first.keys() & second.keys(), "Helm cannot change a Job that is there"
    for name, job in first.items():
        annotations = job["metadata"]["annotations"]
        assert HELM not in annotations, f"{name}: Helm's --wait would not reach a hook that comes after"
        assert (annotations[ARGO], annotations[f"{ARGO}-delete-policy"]) == ("Sync", "BeforeHookCreation"), name
        assert "ttlSecondsAfterFinished" not in job["spec"], f"{name}: a tool that mends drift would run it again"


def test_old_pods_serve_until_the_tables_of_a_new_version_are_there() -> None:
    objects = rendered(merged(PRODUCTION, {"api": {"replicas": 1}}), revision=2)
    deployment = the(objects, "Deployment", "-api")["spec"]
    assert deployment["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    (container,) = containers(deployment["template"])
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    # Neither asks for the tables: a pod that waits for its migration is not started anew.
    for probe in ("startupProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["path"] == "/healthz"
