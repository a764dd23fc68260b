#!/bin/sh
# make test-kind: the chart on a real control plane. Needs docker, kind 0.24 or newer (its network enforces policies),
# kubectl, helm and the images of `make images`. Makes a cluster of its own, and deletes it unless KEEP is set.
set -eu

CLUSTER=rubricworks-test
NAMESPACE=rubricworks
CHART=charts/rubricworks
VERSION=$(sed -n 's/^appVersion: "\(.*\)"$/\1/p' $CHART/Chart.yaml)
K="kubectl --context kind-$CLUSTER"
H="helm --kube-context kind-$CLUSTER --namespace $NAMESPACE"

failed=0
said() { printf '\n== %s\n' "$*"; }
expect() {  # expect WHAT EXPECTED FOUND
  if [ "$2" = "$3" ]; then echo "ok      $1: $3"; else echo "FAILED  $1: $3, expected $2"; failed=1; fi
}
finish() { [ -n "${KEEP:-}" ] || kind delete cluster --name $CLUSTER; }

said "a cluster with a control plane, a node, and a node that looks like a GPU pool"
trap finish EXIT
kind create cluster --name $CLUSTER --wait 180s --config - <<'CONFIG'
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
nodes:
  - role: control-plane
  - role: worker
  - role: worker
    labels: {pool: gpu}
CONFIG
gpu=$($K get nodes -l pool=gpu -o name)
$K taint "$gpu" nvidia.com/gpu=present:NoSchedule
# No GPU is needed to see where pods go: the node only has to offer the resource.
$K patch "$gpu" --subresource=status --type=json \
  -p '[{"op": "add", "path": "/status/capacity/nvidia.com~1gpu", "value": "2"}]'
kind load docker-image --name $CLUSTER "rubricworks/api:$VERSION" "rubricworks/cpu:$VERSION"

said "a namespace that takes restricted pods alone, and its Secret"
$K create namespace $NAMESPACE
$K label namespace $NAMESPACE pod-security.kubernetes.io/enforce=restricted
$K -n $NAMESPACE create secret generic rubricworks-trial --from-literal=AWS_ACCESS_KEY_ID=rubricworks \
  --from-literal=AWS_SECRET_ACCESS_KEY="$(openssl rand -hex 24)" --from-literal=token="$(openssl rand -hex 32)"

said "install, with a judge in the GPU pool"
set -- -f $CHART/values-trial.yaml --set pools.gpu.accelerator=nvidia.com/gpu --set pools.gpu.nodeSelector.pool=gpu \
  --set pools.gpu.tolerations[0].key=nvidia.com/gpu --set pools.gpu.tolerations[0].operator=Exists \
  --set models.judge.model=org/judge --set models.judge.pool=gpu \
  --set modelDefaults.resources.requests.cpu=100m --set modelDefaults.resources.requests.memory=128Mi
# The judge's image is not there, so not everything becomes ready: wait for what must.
$H install rubricworks $CHART "$@"
$K -n $NAMESPACE rollout status --timeout=300s statefulset/rubricworks-s3 deployment/rubricworks-mlflow
$K -n $NAMESPACE rollout status --timeout=300s deployment/rubricworks-api

scheduled() { $K -n $NAMESPACE wait --for=condition=PodScheduled --timeout=20s "$@" >/dev/null 2>&1 && echo yes || echo no; }
said "a pod gets onto the GPU pool with its toleration, and not without"
expect "judge, tolerated" yes "$(scheduled pod -l rubricworks/model=judge)"
$H upgrade rubricworks $CHART "$@" --set pools.gpu.tolerations=null --set models.judge.revision=other
$K -n $NAMESPACE delete pod -l rubricworks/model=judge --wait
expect "judge, not tolerated" no "$(scheduled pod -l rubricworks/model=judge)"

said "upgrade, and back"
api_pods() { $K -n $NAMESPACE get pods -l app.kubernetes.io/component=api -o jsonpath='{.items[*].metadata.uid}'; }
before=$(api_pods)
$H upgrade rubricworks $CHART -f $CHART/values-trial.yaml --wait --timeout 300s
expect "the API's pod after an upgrade that does not concern it" "$before" "$(api_pods)"
$H test rubricworks --logs
$H rollback rubricworks 1
$K -n $NAMESPACE rollout status --timeout=300s deployment/rubricworks-api
expect "the judge after the rollback" yes "$(scheduled pod -l rubricworks/model=judge)"

said "what accounts may do"
may() { $K -n $NAMESPACE auth can-i --as "system:serviceaccount:$NAMESPACE:rubricworks-$1" "$2" "$3" 2>/dev/null || true; }
expect "pipelines create jobs.batch" yes "$(may pipelines create jobs.batch)"
expect "pipelines create trainjobs.trainer.kubeflow.org" yes "$(may pipelines create trainjobs.trainer.kubeflow.org)"
expect "pipelines get pods/log" yes "$(may pipelines get pods/log)"
expect "pipelines list events" yes "$(may pipelines list events)"
expect "pipelines get secret/mlpipeline-minio-artifact" yes "$(may pipelines get secret/mlpipeline-minio-artifact)"
expect "pipelines list secrets" no "$(may pipelines list secrets)"
expect "pipelines get secret/rubricworks-trial" no "$(may pipelines get secret/rubricworks-trial)"
expect "pipelines create pods/exec" no "$(may pipelines create pods/exec)"
expect "workers get pods" no "$(may workers get pods)"
expect "api get pods" no "$(may api get pods)"

said "who reaches the API: the test, and not a stranger"
stranger() {
  $K -n $NAMESPACE run "stranger-$$" --image "rubricworks/cpu:$VERSION" --restart=Never --rm -i --quiet --overrides \
    '{"spec": {"securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}, "containers": [
      {"name": "stranger", "image": "rubricworks/cpu:'"$VERSION"'", "command": ["python", "-c",
       "import socket\ntry: socket.create_connection((\"rubricworks-api\", 80), 5); print(\"yes\")\nexcept OSError: print(\"no\")"],
       "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]}}'
}
expect "a stranger reaches the API" no "$(stranger)"

exit $failed
