"""A base image from nothing but Debian's packages, for where no registry of images can be reached, and podman on it."""

import os
import shutil
import subprocess
from pathlib import Path

BASE = "localhost/rubricworks-test/base:bookworm"
TOOLS = ("podman", "runc", "debootstrap")
_OF_THIS_MACHINE = ("/etc/pip.conf", "/etc/ssl/certs", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates")
"""Settings by which this machine reaches PyPI: mounted while an image is built, and in none of its layers."""

RESTRICTED = (
    *("--runtime=runc", "--network=host", "--read-only", "--cap-drop=all", "--security-opt=no-new-privileges"),
    # podman's defaults are above what a container in a virtual machine may set.
    *("--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096"),
)
"""Demands of Pod Security `restricted` and of a read-only root, in podman's words."""


def missing() -> str | None:
    """Reason that images cannot be built here; None if they can."""
    if lacking := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return f"not installed: {', '.join(lacking)}; run tests/cluster/install.sh"
    return None if os.geteuid() == 0 else "debootstrap and podman's chroot isolation need root"


def make_base(folder: Path) -> None:
    """Make the base image in podman's store, unless it is there."""
    if podman("image", "exists", BASE, check=False).returncode == 0:
        return
    packages = "--include=python3,python3-venv,ca-certificates"
    _run("debootstrap", "--variant=minbase", packages, "bookworm", str(folder))
    shutil.rmtree(folder / "var/cache/apt/archives")
    archive = folder.with_suffix(".tar")
    _run("tar", "--numeric-owner", "-C", str(folder), "-cf", str(archive), ".")
    podman("import", "--quiet", str(archive), BASE)
    archive.unlink()


def build(script: Path, image: str, tag: str, **settings: str) -> str:
    """Build one image as `make images` does, on the base; returns what the script printed last."""
    # A package that is installed may write beside the certificates, so a folder is an overlay that is thrown away.
    options = {place: "O" if Path(place).is_dir() else "ro" for place in _OF_THIS_MACHINE if Path(place).exists()}
    mounts = [f"--volume={place}:{place}:{option}" for place, option in options.items()]
    digest = podman("image", "inspect", "--format={{.Digest}}", BASE).stdout.strip()
    environment = {
        **os.environ,
        "ENGINE": "podman",
        "BASE": f"{BASE}@{digest}",
        "REGISTRY": "localhost/rubricworks-test",
        "TAG": tag,
        "OPTIONS": " ".join(["--isolation=chroot", "--network=host", *mounts]),
        **settings,
    }
    return _run(str(script), image, environment=environment).stdout


def podman(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run podman; an error holds what it said."""
    return _run("podman", *arguments, check=check)


def _run(
    *command: str, check: bool = True, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=540, check=False)
    assert not check or done.returncode == 0, f"{' '.join(command[:4])}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done
