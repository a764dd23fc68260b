#!/bin/sh
# docker/build.sh [IMAGE...]: builds cpu, trainer, vllm and api, or those named, with docker or podman.
#
#   make images
#   REGISTRY=registry.example/team PUSH=1 docker/build.sh cpu api
#
# Beside each image, build/images/IMAGE.cdx.json has its packages and IMAGE.provenance.json what it was built from. With
# RUBRICWORKS_SIGNING_KEY set, each has a signature by that key in FILE.sig (docs/images.md).
#
# ENGINE    docker or podman; by default, whichever answers
# BASE      the image that all are made from: Python 3.11 with venv, glibc 2.34 or newer; by default the Dockerfile's
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

version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' rubricworks/__init__.py)
REGISTRY=${REGISTRY:-rubricworks}
TAG=${TAG:-$version}
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
[ -z "$(git status --porcelain --untracked-files=no 2>/dev/null)" ] || revision=$revision-changed

COMMAND="docker/build.sh${*:+ $*}"
set -- ${*:-cpu trainer vllm api}
for image in "$@"; do
  case $image in
    cpu | trainer | vllm | api) ;;
    *) fail "there is no image '$image'; there are cpu, trainer, vllm, api" ;;
  esac
done
BASE=${BASE:-$(sed -n 's/^ARG BASE=//p' docker/Dockerfile)}
case $BASE in
  *@sha256:*) ;;
  *)
    [ "${PUSH:-}" != 1 ] || fail "BASE is not named by a digest, so what is pushed would depend on the day: BASE=$BASE@sha256:…"
    echo "note: BASE is not named by a digest, so what is built depends on the day; see docs/images.md" >&2
    ;;
esac
python=.venv/bin/python
[ -x "$python" ] || python=python3
if [ -n "${RUBRICWORKS_SIGNING_KEY:-}" ]; then
  "$python" -c 'import model_signing, rubricworks' 2>/dev/null ||
    fail "RUBRICWORKS_SIGNING_KEY is set; signing needs: pip install '.[signing]'"
fi
out=build/images
mkdir -p "$out"

# The OCI format has no health checks; podman drops them unless asked for Docker's.
format=$(case $("$ENGINE" --version) in podman*) echo --format=docker ;; esac)
for image in "$@"; do
  # shellcheck disable=SC2086  # lists of options
  "$ENGINE" build $format ${OPTIONS:-} --build-arg BASE="$BASE" -f docker/Dockerfile \
    --build-arg IMAGE="$image" --build-arg VERSION="$version" --build-arg REVISION="$revision" \
    --target "$image" -t "$REGISTRY/$image:$TAG" .
done

pushed=$(mktemp)
trap 'rm -f "$pushed"' EXIT

push() {  # push NAME: sends an image to its registry, and prints its reference by digest
  # podman compresses on the way out, so only the push itself knows the digest; docker learns it from the registry.
  if [ -n "$format" ]; then
    "$ENGINE" push --digestfile "$pushed" "$1:$TAG" >&2
    echo "$1@$(cat "$pushed")"
  else
    "$ENGINE" push "$1:$TAG" >&2
    "$ENGINE" image inspect --format '{{range .RepoDigests}}{{println .}}{{end}}' "$1:$TAG" | grep -F "$1@" | head -n 1
  fi
}

named=
for image in "$@"; do
  name=$REGISTRY/$image
  container=$("$ENGINE" create "$name:$TAG")
  "$ENGINE" cp "$container:/usr/share/sbom/rubricworks.cdx.json" "$out/$image.cdx.json"
  "$ENGINE" cp "$container:/usr/share/sbom/wheel.sha256" "$out/$image.wheel.sha256"
  "$ENGINE" rm "$container" >/dev/null
  if [ "${PUSH:-}" = 1 ]; then
    reference=$(push "$name")
    digest=${reference#*@}
    named="$named  $image: $reference
"
  else
    digest=$("$ENGINE" image inspect --format '{{.Id}}' "$name:$TAG")
  fi
  BASE=$BASE COMMAND=$COMMAND ENGINE=$ENGINE OPTIONS=${OPTIONS:-} REVISION=$revision VERSION=$version \
    "$python" docker/provenance.py "$out" "$image" "$name" "$digest"
done
[ -z "$named" ] || printf 'images:\n%s' "$named"
