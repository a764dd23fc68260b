"""Provenance of one image, as an in-toto statement with SLSA's predicate: what it was built from, and by which command.

    docker/provenance.py FOLDER IMAGE NAME DIGEST      (docker/build.sh calls it, and sets the variables)

FOLDER has the image's list of packages, IMAGE.cdx.json, and IMAGE.wheel.sha256, the digest of the package's wheel. It
gets IMAGE.provenance.json, and with RUBRICWORKS_SIGNING_KEY a signature of both. DIGEST is that of the image's
manifest where it was pushed, else its id in the local store.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = "https://github.com/rubricworks/rubricworks"


def sha256(path: str) -> dict[str, object]:
    return {"name": path, "digest": {"sha256": hashlib.sha256((ROOT / path).read_bytes()).hexdigest()}}


def subject(name: str, digest: str) -> dict[str, object]:
    return {"name": name, "digest": {"sha256": digest.strip().removeprefix("sha256:")}}


def statement(image: str, name: str, digest: str, wheels: str) -> dict[str, object]:
    """Statement over an image and the wheel in it."""
    environment = os.environ
    base, _, base_digest = environment["BASE"].partition("@sha256:")
    revision = environment["REVISION"].removesuffix("-changed")
    built = [line.split() for line in wheels.splitlines()]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [subject(name, digest), *(subject(Path(path).name, hash_) for hash_, path in built)],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"{PROJECT}/docker/build.sh",
                "externalParameters": {
                    "command": environment["COMMAND"],
                    "image": image,
                    "version": environment["VERSION"],
                    "options": environment.get("OPTIONS", ""),
                },
                # An image of changed files says so, since its commit is not all that it was built from.
                "internalParameters": {"filesDifferFromCommit": revision != environment["REVISION"]},
                "resolvedDependencies": [
                    *([] if revision == "unknown" else [{"uri": f"git+{PROJECT}", "digest": {"gitCommit": revision}}]),
                    {"uri": f"docker://{base}", **({"digest": {"sha256": base_digest}} if base_digest else {})},
                    *(sha256(f"docker/{name}") for name in ("Dockerfile", "build.sh", "requirements-tools.txt")),
                    sha256(f"docker/requirements-{image}.txt"),
                ],
            },
            "runDetails": {"builder": {"id": f"{PROJECT}/docker/build.sh#{environment['ENGINE']}"}},
        },
    }


def main(folder: Path, image: str, name: str, digest: str) -> None:
    """Write the statement, and sign it and the list of packages."""
    wheels = folder / f"{image}.wheel.sha256"
    written = folder / f"{image}.provenance.json"
    written.write_text(json.dumps(statement(image, name, digest, wheels.read_text()), indent=1) + "\n")
    wheels.unlink()
    if os.environ.get("RUBRICWORKS_SIGNING_KEY"):
        sys.path.insert(0, str(ROOT))
        from rubricworks.errors import UserError
        from rubricworks.tracking.signatures import sign

        try:
            for file in (folder / f"{image}.cdx.json", written):
                sign(file, file.with_name(f"{file.name}.sig"))
        except UserError as error:
            sys.exit(f"error: {error}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
