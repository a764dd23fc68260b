#!/bin/sh
# docker/lock.sh: what each image installs, to the last package, with the hashes of PyPI's files.
#
#   make locks        after a change of pyproject.toml or constraints.txt
#
# Versions are those of constraints.txt, so that the images run what the tests ran. vLLM asks for older releases of two
# packages, so the trainer image, whose trainings draw their rollouts with it, has those two of vLLM's choice; the vLLM
# image is held to the tests' trainer and torch alone. PyPI's torch for x86_64 is the CUDA build. The locks hold for Linux on
# x86_64, Python 3.11, glibc 2.34 and newer.
set -eu
cd "$(dirname "$0")/.."

UV=${UV:-uv}
STAGES="--extra tracking --extra pipelines --extra cluster --extra store --extra eval --extra batch --extra telemetry --extra signing"
own=$(mktemp)
but_two=$(mktemp)
trap 'rm -f "$own" "$but_two"' EXIT
grep -E '^(accelerate|datasets|peft|torch|transformers|trl)==' constraints.txt >"$own"
grep -vE '^(fastapi|numpy)==' constraints.txt >"$but_two"

lock() {  # lock IMAGE SOURCES AND OPTIONS...
  image=$1
  shift
  # kfp publishes its server's API as source alone; it is pure Python.
  "$UV" pip compile --quiet --no-config --default-index https://pypi.org/simple --no-emit-index-url --no-header \
    --no-annotate --generate-hashes --python-version 3.11 --python-platform x86_64-manylinux_2_34 \
    --only-binary :all: --no-binary kfp-server-api -o "docker/requirements-$image.txt" "$@"
  echo "docker/requirements-$image.txt: $(grep -c == "docker/requirements-$image.txt") packages"
}

lock tools docker/tools.in
lock api pyproject.toml --extra api --extra store --extra tracking -c constraints.txt
# shellcheck disable=SC2086  # a list of options
lock cpu pyproject.toml $STAGES -c constraints.txt
# shellcheck disable=SC2086
lock trainer pyproject.toml docker/trainer.in --extra gpu --extra ocr $STAGES -c "$but_two"
lock vllm pyproject.toml --extra gpu --extra store -c "$own"
