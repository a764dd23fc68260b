#!/bin/sh
# What the tests marked `cluster` need beyond Python: servers and tools of Debian or Ubuntu, and of npm. Quick when all
# is there. Each part says what it is for; a test whose part is missing skips, and says so.
set -eu

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

debian() {  # debian COMMAND PACKAGE: install PACKAGE unless COMMAND is there
  command -v "$1" >/dev/null 2>&1 && return
  as_root apt-get install -y -qq --no-install-recommends "$2" >/dev/null
}

# An S3 server that is not ours: Ceph's gateway, and what it stands on (test_s3_*).
debian ceph ceph-common
debian ceph-mon ceph-mon
debian ceph-osd ceph-osd
debian radosgw radosgw

# Images are built and run without a registry (test_container_images).
debian podman podman
debian runc runc
debian debootstrap debootstrap
debian docker-registry docker-registry

# The database of the service (test_api_postgres).
debian pg_ctlcluster postgresql

# Checks every request of the Kubeflow client, and every answer, against the API's description (test_kubeflow_contract).
prism="$(dirname "$0")/../../.venv/prism"
[ -x "$prism/node_modules/.bin/prism" ] || {
  debian npm npm
  npm install --silent --no-audit --no-fund --prefix "$prism" @stoplight/prism-cli@5.14.2 >/dev/null
}

# verl's own hands (test_verl_itself). Its pins clash with ours, so it lies in a folder of its own, with what it imports.
verl="$(dirname "$0")/../../.venv/verl"
[ -d "$verl/verl" ] || {
  "$(dirname "$0")/../../.venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
    --target "$verl" verl==0.9.1 ray omegaconf antlr4-python3-runtime==4.9.3 'tensordict>=0.8,<=0.10' codetiming hydra-core \
    pyvers orjson cloudpickle torchdata msgpack
}

# Peers that take rubrics as theirs (test_peers_themselves), each with its own pins in a folder of its own.
for peer in inspect:inspect-ai==0.3.285 verifiers:verifiers==0.4.0 openenv:openenv-core==0.3.0; do
  folder="$(dirname "$0")/../../.venv/peers/${peer%%:*}"
  [ -d "$folder" ] || "$(dirname "$0")/../../.venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    --target "$folder" "${peer#*:}"
done

# NeMo Gym asks for Python 3.13, but its resources servers run on 3.11. ray and hydra are verl's.
gym="$(dirname "$0")/../../.venv/peers/nemo-gym"
[ -d "$gym" ] || "$(dirname "$0")/../../.venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
  --ignore-requires-python --target "$gym" nemo-gym==0.7.0 openai==2.44.0 httptools itsdangerous yappi uvloop pydot \
  gprof2dot devtools wandb sentry-sdk platformdirs

# Installs the images' locks (test_locks_install).
"$(dirname "$0")/../../.venv/bin/python" -m pip install --quiet --disable-pip-version-check uv==0.13.8
