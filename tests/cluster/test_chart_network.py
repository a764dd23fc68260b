"""The chart's NetworkPolicies allow the calls that some program needs, and no others."""

import pytest
from policy_flows import Address, Pod, allowed
from rendered_chart import MATRIX, NAMESPACE, PRODUCTION, merged, of_kind, pod_templates, rendered

pytestmark = pytest.mark.cluster

STRANGER = Pod({"app": "stranger"}, NAMESPACE)
ELSEWHERE = Pod({"app": "stranger"}, "other")
DNS = Pod({"k8s-app": "kube-dns"}, "kube-system")
STEP = {"app.kubernetes.io/part-of": "rubricworks", "pipelines.kubeflow.org/v2_component": "true"}
DRIVER = {"pipelines.kubeflow.org/v2_component": "true"}
NODE = {"app.kubernetes.io/part-of": "rubricworks", "rubricworks/work": "0a1b"}
"""Labels of a stage's pod, of Kubeflow's driver, of a training's node."""
PORTS = (22, 5000, 8000, 8080, 9000)
INTERNET, METADATA, CLUSTER_API = Address("93.184.216.34"), Address("169.254.169.254"), Address("172.20.0.1")

TRIAL_AND_MODELS = merged(MATRIX["models"], MATRIX["trial"])


class Installed:
    def __init__(self, values: dict) -> None:
        objects = rendered(values)
        self.policies = of_kind(objects, "NetworkPolicy")
        self.pods = {where: Pod(pod["metadata"]["labels"], NAMESPACE) for where, pod in pod_templates(objects)}

    def pod(self, ending: str) -> Pod:
        (result,) = [pod for where, pod in self.pods.items() if where.endswith(ending)]
        return result

    def lets(self, source: Pod | Address, target: Pod | Address, port: int, protocol: str = "TCP") -> bool:
        return allowed(self.policies, source, target, port, protocol)


def test_calls_between_pods_of_a_trial_are_those_that_are_needed() -> None:
    """Every pair of pods on every port, against the list."""
    chart = Installed(TRIAL_AND_MODELS)
    step, driver, node = (Pod(labels, NAMESPACE) for labels in (STEP, DRIVER, NODE))
    names = ["api", "retention", "test", "mlflow", "s3", "buckets-1", "model-judge", "model-teacher", "model-local"]
    pods = {name: chart.pod(f"rubricworks-{name}") for name in names}
    pods |= {"step": step, "driver": driver, "node": node, "stranger": STRANGER, "elsewhere": ELSEWHERE}
    models = {"model-judge", "model-teacher", "model-local"}
    pipelines = {"step", "driver", "node"}
    expected = {("test", "api", 8080), ("test", "mlflow", 5000)}
    expected |= {(caller, "s3", 9000) for caller in {"api", "retention", "mlflow", "buckets-1"} | pipelines}
    expected |= {(caller, "mlflow", 5000) for caller in {"api", "retention"} | pipelines}
    expected |= {(caller, model, 8000) for caller in {"test"} | pipelines for model in models}
    expected |= {
        (pipeline, other, port)
        for pipeline in pipelines
        for other in pipelines
        for port in (22, 5000, 8000, 8080, 9000)
    }
    routes = {
        (source, target, port)
        for source in pods
        for target in pods
        for port in PORTS
        if source != target and target != "elsewhere" and chart.lets(pods[source], pods[target], port)
    }
    assert routes == {flow for flow in expected if flow[0] != flow[1]}


def test_everybody_of_the_release_may_ask_for_names_and_strangers_may_not() -> None:
    chart = Installed(TRIAL_AND_MODELS)
    for pod in [*chart.pods.values(), Pod(STEP, NAMESPACE), Pod(NODE, NAMESPACE)]:
        assert chart.lets(pod, DNS, 53, "UDP")
        assert chart.lets(pod, DNS, 53, "TCP")
        assert chart.lets(pod, Address("169.254.20.10"), 53, "UDP"), "the cache of names on a node"
        assert not chart.lets(pod, ELSEWHERE, 53, "UDP")
        assert not chart.lets(pod, METADATA, 80), "clouds hand out credentials there"
    assert not chart.lets(STRANGER, DNS, 53, "UDP")


def test_servers_outside_are_reached_on_their_own_ports_by_who_needs_them() -> None:
    chart = Installed(merged(MATRIX["keys"], {"mlflow": {"uri": "http://mlflow.tools.svc:5050/mlflow"}}))
    api, retention = chart.pod("-api"), chart.pod("-retention")
    tools = Pod({"app": "mlflow"}, "tools")
    assert chart.lets(api, Address("10.0.0.5"), 5432)
    assert chart.lets(api, Pod({"app": "postgres"}, "databases"), 5432)
    assert not chart.lets(retention, Address("10.0.0.5"), 5432)
    for caller in (api, retention, Pod(STEP, NAMESPACE)):
        assert chart.lets(caller, INTERNET, 9443)
        assert chart.lets(caller, tools, 5050)
        assert not chart.lets(caller, tools, 5000)
    assert not chart.lets(api, INTERNET, 443)
    assert not chart.lets(api, CLUSTER_API, 6443)
    assert not chart.lets(chart.pod("-test"), INTERNET, 443)


def test_peers_that_are_named_leave_no_others() -> None:
    to = [{"ipBlock": {"cidr": "10.1.2.3/32"}}]
    chart = Installed(merged(PRODUCTION, {"database": {"network": {"to": to}}, "storage": {"network": {"to": to}}}))
    assert chart.lets(chart.pod("-api"), Address("10.1.2.3"), 5432)
    assert not chart.lets(chart.pod("-api"), Address("10.1.2.4"), 5432)
    assert not chart.lets(chart.pod("-api"), ELSEWHERE, 5432)
    assert chart.lets(chart.pod("-retention"), Address("10.1.2.3"), 443)


def test_pods_of_pipelines_reach_kubeflow_the_cluster_and_endpoints_of_others() -> None:
    chart = Installed(PRODUCTION)
    for labels in (STEP, DRIVER, NODE):
        pod = Pod(labels, NAMESPACE)
        assert chart.lets(pod, Pod({"app": "ml-pipeline"}, "kubeflow"), 8887)
        assert chart.lets(pod, CLUSTER_API, 6443)
        assert chart.lets(pod, INTERNET, 443)
        assert not chart.lets(pod, INTERNET, 22)
        assert not chart.lets(pod, STRANGER, 8000)
        assert not chart.lets(ELSEWHERE, pod, 29500)


def test_pipelines_of_a_profile_reach_the_models_and_pods_of_other_namespaces_do_not() -> None:
    chart = Installed(MATRIX["everything"])
    judge = chart.pod("-model-judge")
    assert chart.lets(Pod(STEP, "profile-a"), judge, 8000)
    assert chart.lets(Pod(NODE, "profile-b"), judge, 8000)
    assert chart.lets(Pod(NODE, "profile-b"), Pod(NODE, "profile-b"), 29500)
    assert not chart.lets(Pod(NODE, "profile-a"), Pod(NODE, "profile-b"), 29500)
    assert not chart.lets(Pod(STEP, "profile-c"), judge, 8000)
    assert not chart.lets(Pod({"app": "notebook"}, "profile-a"), judge, 8000)
    assert chart.lets(Pod({"app": "prometheus"}, "monitoring"), judge, 8000)


def test_a_model_that_is_offline_reaches_nothing_and_others_only_the_hub() -> None:
    chart = Installed(MATRIX["models"])
    assert not chart.lets(chart.pod("-model-local"), INTERNET, 443)
    assert chart.lets(chart.pod("-model-judge"), INTERNET, 443)
    assert not chart.lets(chart.pod("-model-judge"), INTERNET, 9443)


def test_the_ingress_controller_reaches_the_api_where_it_is_named() -> None:
    controller = Pod({"app": "nginx"}, "ingress-nginx")
    assert Installed(MATRIX["ingress and scaling"]).lets(controller, Installed(PRODUCTION).pod("-api"), 8080)
    chart = Installed(PRODUCTION)
    assert not chart.lets(controller, chart.pod("-api"), 8080)


def test_scope_release_leaves_other_programs_of_the_namespace_alone() -> None:
    narrow = Installed(merged(TRIAL_AND_MODELS, {"networkPolicy": {"scope": "release"}}))
    assert narrow.lets(STRANGER, INTERNET, 443)
    assert not narrow.lets(STRANGER, narrow.pod("-s3"), 9000)
    wide = Installed(TRIAL_AND_MODELS)
    assert not wide.lets(STRANGER, INTERNET, 443)
    assert not wide.lets(ELSEWHERE, STRANGER, 80)


def test_every_pod_of_the_release_is_cut_off_before_it_is_let_through() -> None:
    for case in MATRIX:
        chart = Installed(MATRIX[case])
        if case == "little":
            assert not chart.policies
            continue
        for where, pod in chart.pods.items():
            assert not chart.lets(ELSEWHERE, pod, 65000), where
            assert not chart.lets(pod, Address("198.51.100.9"), 65000), where


def test_extra_egress_opens_what_it_names() -> None:
    chart = Installed(MATRIX["ingress and scaling"])
    assert chart.lets(chart.pod("-retention"), Address("169.254.170.23"), 80), "EKS Pod Identity"
    assert not chart.lets(chart.pod("-retention"), METADATA, 80)


def test_pods_of_pipelines_call_the_api_where_they_have_a_token_of_it() -> None:
    without, named = (
        Installed(merged(PRODUCTION, {"pipelines": {"apiToken": {"existingSecret": secret}}}))
        for secret in ("", "runner")
    )
    step, stranger = Pod(STEP, NAMESPACE), STRANGER
    assert named.lets(step, named.pod("rubricworks-api"), 8080)
    assert not without.lets(step, without.pod("rubricworks-api"), 8080)
    assert not named.lets(stranger, named.pod("rubricworks-api"), 8080)
