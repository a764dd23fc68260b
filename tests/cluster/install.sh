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

# Checks the alert rules, scrapes the service and answers the dashboard's queries (test_monitoring); its service stays off.
debian promtool prometheus

# What stands between the service and its database, or its browsers (test_api_pgbouncer, test_api_nginx).
debian pgbouncer pgbouncer
debian nginx nginx-light

# What does not come from Debian lies outside the clone, so that another clone finds it; a change of pins makes it anew.
root=$(cd "$(dirname "$0")/../.." && pwd)
peers=${XDG_CACHE_HOME:-$HOME/.cache}/rubricworks/peers

is_there() { [ "$(cat "$peers/$1.pins" 2>/dev/null)" = "$2" ]; }

peer() {  # peer NAME "PINS" OPTIONS OF PIP...: a folder with the packages of a peer, whose pins clash with ours
  name=$1 pins=$2
  shift 2
  is_there "$name" "$pins" && return
  rm -rf "${peers:?}/$name"
  # shellcheck disable=SC2086  # a list of packages
  "$root/.venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@" --target "$peers/$name" $pins
  printf %s "$pins" > "$peers/$name.pins"
}

# Checks every request of the Kubeflow client, and every answer, against the API's description (test_kubeflow_contract).
is_there prism 5.14.2 || {
  debian npm npm
  npm install --silent --no-audit --no-fund --prefix "$peers/prism" @stoplight/prism-cli@5.14.2 >/dev/null
  printf %s 5.14.2 > "$peers/prism.pins"
}

# The certified identity provider at which people log in (test_login_oidc_provider).
is_there oidc-provider 9.13.3 || {
  debian npm npm
  npm install --silent --no-audit --no-fund --prefix "$peers/oidc-provider" oidc-provider@9.13.3 >/dev/null
  printf %s 9.13.3 > "$peers/oidc-provider.pins"
}

# verl's own hands (test_verl_itself), with what it imports.
peer verl "verl==0.9.1 ray==2.60.0 omegaconf==2.3.0 antlr4-python3-runtime==4.9.3 tensordict==0.10.0 codetiming==1.4.0 \
hydra-core==1.3.2 pyvers==0.1.0 orjson==3.13.0 cloudpickle==3.1.3 torchdata==0.11.0 msgpack==1.2.4" --no-deps

# Peers that take rubrics as theirs (test_peers_themselves).
peer inspect inspect-ai==0.3.285
peer verifiers verifiers==0.4.0
peer openenv openenv-core==0.3.0

# NeMo Gym asks for Python 3.13, but its resources servers run on 3.11. ray and hydra are verl's.
peer nemo-gym "nemo-gym==0.7.0 openai==2.44.0 httptools==0.9.0 itsdangerous==2.2.0 yappi==1.7.6 uvloop==0.23.0 pydot==4.0.1 \
gprof2dot==2025.4.14 devtools==0.13.0 wandb==0.31.0 sentry-sdk==2.75.0 platformdirs==4.14.8" --no-deps --ignore-requires-python

# What the guide of operations names (test_operations_guide, test_projects_in_one_store). Any kubectl makes objects offline.
debian kubectl kubernetes-client
debian curl curl
command -v aws >/dev/null 2>&1 || peer awscli awscli==1.45.11

# Audits the images' locks (tests/docker/test_audit.py).
peer pip-audit pip-audit==2.10.1

# Installs the images' locks (test_locks_install).
"$root/.venv/bin/python" -m pip install --quiet --disable-pip-version-check uv==0.13.8
