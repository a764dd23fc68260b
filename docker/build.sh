#!/bin/sh
# docker/build.sh [IMAGE...]: builds cpu, trainer, vllm and api, or those named, with docker or podman.
#
#   make images
#   BASE=docker.io/library/python:3.11-slim-bookworm@sha256:… REGISTRY=registry.example/team PUSH=1 docker/build.sh cpu api
#
# ENGINE    docker or podman; by default, whichever answers
# BASE      the image that all are made from: Python 3.11 with venv, glibc 2.34 or newer
# REGISTRY  what the names begin with; by default `rubricworks`, as in components/images.py
# TAG       by default the version of the wheel
# PUSH      1 pushes what was built, and prints the `images:` of a recipe's `cluster:` section, by digest
# OPTIONS   more options of `build`: --network=host, --platform=linux/amd64
set -eu
cd "$(dirname "$0")/.."

fail() { echo "error: $1" >&2; exit 2; }

if [ -z "${ENGINE:-}" ]; then
  for ENGINE in docker podman none; do
    if "$ENGINE" info >/dev/null 2>&1; then break; fi
  done
fi
command -v "$ENGINE" >/dev/null 2>&1 || fail "no container engine answers; start docker, or install podman"

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)
REGISTRY=${REGISTRY:-rubricworks}
TAG=${TAG:-$version}
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
[ -z "$(git status --porcelain --untracked-files=no 2>/dev/null)" ] || revision=$revision-changed

set -- ${*:-cpu trainer vllm api}
for image in "$@"; do
  case $image in
    cpu | trainer | vllm | api) ;;
    *) fail "there is no image '$image'; there are cpu, trainer, vllm, api" ;;
  esac
done
case ${BASE:-} in
  *@sha256:*) ;;
  *) echo "note: BASE is not named by a digest, so what is built depends on the day; see docs/images.md" >&2 ;;
esac

# The OCI format has no health checks; podman drops them unless asked for Docker's.
format=$(case $("$ENGINE" --version) in podman*) echo --format=docker ;; esac)
for image in "$@"; do
  # shellcheck disable=SC2086  # lists of options
  "$ENGINE" build $format ${OPTIONS:-} ${BASE:+--build-arg BASE="$BASE"} -f docker/Dockerfile \
    --build-arg IMAGE="$image" --build-arg VERSION="$version" --build-arg REVISION="$revision" \
    --target "$image" -t "$REGISTRY/$image:$TAG" .
done

[ "${PUSH:-}" = 1 ] || exit 0
# podman compresses on the way out, so only the push itself knows the digest; docker learns it from the registry.
pushed=$(mktemp)
trap 'rm -f "$pushed"' EXIT
named=
for image in "$@"; do
  name=$REGISTRY/$image
  if [ -n "$format" ]; then
    "$ENGINE" push --digestfile "$pushed" "$name:$TAG" >&2
    reference=$name@$(cat "$pushed")
  else
    "$ENGINE" push "$name:$TAG" >&2
    reference=$("$ENGINE" image inspect --format '{{range .RepoDigests}}{{println .}}{{end}}' "$name:$TAG" |
      grep -F "$name@" | head -n 1)
  fi
  named="$named  $image: $reference
"
done
printf 'images:\n%s' "$named"
