"""Known vulnerabilities of the packages that the images install: pip-audit over their locks.

    make audit                                                  PyPI's advisories
    make audit ADVISORIES=https://osv.example/v1/query          those of a service with OSV's API

Exit status: 0 if every package was audited and none has a known vulnerability, 1 if one has, 2 if not all were audited.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

LOCKS = {path.stem.removeprefix("requirements-"): path for path in Path(__file__).parent.glob("requirements-*.txt")}
_PIN = re.compile(r"^([\w.-]+)(?:\[\S*])?==(\S+)", re.MULTILINE)


class NoAdvisories(Exception):
    """The list of advisories cannot be read."""


def main(advisories: str = "") -> int:
    """Audit all locks, and print a line for each advisory."""
    place = advisories or "https://pypi.org"
    service = ["--vulnerability-service", "osv", "--osv-url", advisories] if advisories else []
    images: dict[tuple[str, str], list[str]] = {}
    for image, path in sorted(LOCKS.items()):
        for pin in _PIN.findall(path.read_text(encoding="utf-8")):
            images.setdefault(pin, []).append(image)
    packages, waiting = [], sorted(images)
    try:
        while waiting:  # pip-audit takes a package once; images have some in two versions
            batch = dict(waiting)
            packages += audit(batch, service)
            waiting = [(name, version) for name, version in waiting if batch[name] != version]
    except NoAdvisories as error:
        print(f"error: no advisories from {place}, so nothing was audited: {error}", file=sys.stderr)
        return 2
    skipped = sorted({package["name"] for package in packages if "skip_reason" in package})
    lines = [
        f"{package['name']} {package['version']} ({', '.join(images[package['name'], package['version']])}): "
        f"{', '.join([advisory['id'], *advisory['aliases']])}; "
        f"fixed in {', '.join(advisory['fix_versions']) or 'no version yet'}"
        for package in packages
        for advisory in package.get("vulns", ())
    ]
    print(*sorted(lines), sep="\n", end="\n" if lines else "")
    if skipped:
        which = ", ".join(skipped[:5]) + (", …" if len(skipped) > 5 else "")
        print(f"error: {place} has no advisories for {len(skipped)} of the packages: {which}", file=sys.stderr)
        return 2
    print(f"{len(packages)} packages of {len(LOCKS)} locks: {len(lines) or 'no'} known vulnerabilities")
    return 1 if lines else 0


def audit(pins: dict[str, str], service: list[str]) -> list[dict]:
    """Answers of pip-audit for packages by name."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("".join(f"{name}=={version}\n" for name, version in pins.items()))
        file.flush()
        options = ["--disable-pip", "--no-deps", "--format", "json", "--progress-spinner", "off"]
        command = [sys.executable, "-m", "pip_audit", *options, *service, "--requirement", file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError) as error:
        raise NoAdvisories((done.stderr.strip().splitlines() or ["no output"])[-1][:300]) from error


if __name__ == "__main__":
    sys.exit(main(*filter(None, sys.argv[1:])))
