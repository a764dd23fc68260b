"""Models that a run serves on a cluster: objects by their schemas, readiness, trouble, owners, and their end."""

import socket

import pytest
from kubernetes_api import DEPLOYMENTS, INFERENCE_SERVICES, PODS, QUOTA, SERVICES, ended

from rubricworks.errors import TransientError, UserError
from rubricworks.kubernetes.config import PodPlan, ServePlan
from rubricworks.kubernetes.served_model import OBJECT_LABEL, Request, delete, serve
from rubricworks.llm.served import ServedModel

POLL = 0.02
WORKFLOW = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "rlr3-x", "uid": "uid-of-workflow"}
KUEUE = {"kueue.x-k8s.io/queue-name": "gpus"}


def plan(*, kserve: bool = False) -> ServePlan:
    pod = PodPlan(image="vllm@sha256:1", accelerator="nvidia.com/gpu", accelerators=1, memory="64Gi", labels=KUEUE)
    return ServePlan(kserve=kserve, pods={"genrm": pod}, callers={"genrm": ("audit", "train_rlr3")})


def request(run: str = "s3://runs/r1", identity: str = "sha256:1", **definition) -> Request:
    served = ServedModel(name="genrm", model={"stage": "train_genrm"}, **{"accelerators": 2, **definition})
    return Request(run, served, identity, f"{run}/train_genrm/model", ("--max-model-len", "4096"))


def ready(api):
    def play(path: str, item: dict) -> None:
        if path.startswith(DEPLOYMENTS):
            api.status(path, availableReplicas=1)
        elif path.startswith(INFERENCE_SERVICES):
            api.condition(path, "Ready")
            api.status(path, address={"url": "http://genrm.team.svc.cluster.local"})

    return play


def start(cluster, asked: Request, **options) -> list[str]:
    return serve(cluster, plan(**options), asked, poll=POLL, report=lambda line: None)


def test_deployment_and_service_are_valid_and_have_what_the_recipe_says(api, cluster):
    api.on_create = ready(api)
    [url] = start(cluster, request())
    [deployment], [service] = api.of(DEPLOYMENTS), api.of(SERVICES)
    name = deployment["metadata"]["name"]
    assert url == f"http://{name}.team:8000"
    template = deployment["spec"]["template"]
    container = template["spec"]["containers"][0]
    assert container["command"][:5] == [
        *("python", "-m", "rubricworks.runtime.pods.rollout_server", "--weights", "s3://runs/r1/train_genrm/model")
    ]
    options = container["command"][container["command"].index("--") + 1 :]
    assert options == [
        *("--served-model-name", "genrm", "--port", "8000", "--tensor-parallel-size", "2", "--max-model-len", "4096")
    ]
    assert container["resources"]["limits"] == {"memory": "64Gi", "nvidia.com/gpu": "2"}
    assert container["startupProbe"]["failureThreshold"] * container["startupProbe"]["periodSeconds"] == 1800
    assert template["spec"]["restartPolicy"] == "Always"
    assert deployment["metadata"]["labels"].items() >= KUEUE.items()
    assert template["metadata"]["labels"].items() >= service["spec"]["selector"].items()
    assert service["metadata"]["name"] == name


def test_a_program_runs_in_its_own_image_and_is_ready_when_it_listens(api, cluster):
    api.on_create = ready(api)
    command = ("python", "detect.py", "{host}:{port}")
    served = ServedModel(name="genrm", command=command, image="team/detector@sha256:2", accelerators=1)
    asked = Request("s3://runs/r1", served, "sha256:1 program-team/detector@sha256:2", "", ())
    start(cluster, asked)
    [container] = api.of(DEPLOYMENTS)[0]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "team/detector@sha256:2"
    assert container["command"] == ["python", "detect.py", "0.0.0.0:8000"]
    assert container["readinessProbe"]["tcpSocket"] == {"port": 8000}
    assert "httpGet" not in container["startupProbe"]


def test_two_stages_share_the_server_and_other_weights_get_another(api, cluster):
    api.on_create = ready(api)
    first, second, retrained = (start(cluster, request(identity=identity)) for identity in ("a", "a", "b"))
    assert first == second
    assert retrained != first
    assert len(api.of(DEPLOYMENTS)) == 2


def test_each_replica_has_an_address_of_its_own(api, cluster):
    api.on_create = ready(api)
    urls = start(cluster, request(replicas=3))
    assert len(set(urls)) == len(api.of(DEPLOYMENTS)) == len(api.of(SERVICES)) == 3


def test_the_runs_workflow_owns_the_servers_and_takes_them_with_it(api, cluster):
    api.on_create = ready(api)
    api.pod(socket.gethostname(), {})
    api.objects[f"{PODS}/{socket.gethostname()}"]["metadata"]["ownerReferences"] = [{**WORKFLOW, "controller": True}]
    api.objects["/workflows/rlr3-x"] = {"metadata": {"uid": WORKFLOW["uid"]}}
    start(cluster, request())
    assert api.of(DEPLOYMENTS)[0]["metadata"]["ownerReferences"] == [WORKFLOW]
    api.delete("/workflows/rlr3-x")
    assert api.of(DEPLOYMENTS) == api.of(SERVICES) == []


def test_deleting_ends_the_models_of_one_run_alone(api, cluster):
    api.on_create = ready(api)
    start(cluster, request())
    start(cluster, request(run="s3://runs/r2"))
    assert delete(cluster, "s3://runs/r1", kserve=False) == 1
    assert len(api.of(DEPLOYMENTS)) == len(api.of(SERVICES)) == 1
    assert delete(cluster, "s3://runs/r1", kserve=False) == 0


def test_a_refused_quota_is_named_and_nothing_is_left(api, cluster):
    def refuse(path: str, item: dict) -> None:
        if path.startswith(DEPLOYMENTS):
            message = f'pods "x" is forbidden: {QUOTA}'
            api.condition(path, "ReplicaFailure", "FailedCreate", message)

    api.on_create = refuse
    with pytest.raises(
        TransientError, match=r"genrm was not ready within 0\.2 seconds: pods are refused: exceeded quota"
    ):
        start(cluster, request(start_within=0.2))
    assert api.of(DEPLOYMENTS) == api.of(SERVICES) == []


@pytest.mark.parametrize(("code", "restarts", "fails"), [(2, 0, True), (1, 3, True), (1, 1, False)])
def test_a_server_that_crashes_is_given_up_at_once_only_if_it_will_again(api, cluster, code, restarts, fails):
    def crash(path: str, item: dict) -> None:
        if path.startswith(DEPLOYMENTS):
            [status] = ended(code, "no CUDA device", name="main")
            api.pod(
                "server",
                item["spec"]["template"]["metadata"]["labels"],
                containerStatuses=[{**status, "restartCount": restarts}],
            )

    api.on_create = crash
    words = "genrm does not start: .*no CUDA device" if fails else "was not ready within 0.3 seconds: .*no CUDA device"
    with pytest.raises(UserError, match=words):
        start(cluster, request(start_within=30 if fails else 0.3))
    assert api.of(DEPLOYMENTS) == []


def test_kserve_gets_the_same_pod_as_an_inference_service(api, cluster):
    api.on_create = ready(api)
    assert start(cluster, request(replicas=2), kserve=True) == ["http://genrm.team.svc.cluster.local"] * 2
    [service] = api.of(INFERENCE_SERVICES)
    predictor = service["spec"]["predictor"]
    assert (predictor["minReplicas"], predictor["maxReplicas"]) == (2, 2)
    [container] = predictor["containers"]
    assert container["name"] == "kserve-container"
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "2"
    assert api.of(DEPLOYMENTS) == []
    assert delete(cluster, "s3://runs/r1", kserve=True) == 1


def test_a_cluster_without_kserve_is_told_so(api, cluster):
    api.refuse = lambda method, path: (
        (404, "the server could not find the requested resource") if "kserve" in path else None
    )
    with pytest.raises(UserError, match=r"install KServe, or leave out cluster\.kserve") as caught:
        start(cluster, request(), kserve=True)
    assert "\n" not in str(caught.value)


def test_missing_rights_are_one_line_that_names_the_role(api, cluster):
    message = 'deployments.apps is forbidden: User "system:serviceaccount:team:x" cannot create resource'
    api.refuse = lambda method, path: (403, message) if method == "POST" else None
    with pytest.raises(UserError, match="give the service account the rights of the chart's role for pipelines"):
        start(cluster, request())


def test_a_lost_pod_leaves_the_address(api, cluster):
    api.on_create = ready(api)
    before = start(cluster, request())
    [deployment] = api.of(DEPLOYMENTS)
    api.pod("lost", {OBJECT_LABEL: deployment["metadata"]["name"]}, "Failed", reason="NodeLost")
    api.status(f"{DEPLOYMENTS}/{deployment['metadata']['name']}", availableReplicas=1)
    assert start(cluster, request()) == before
