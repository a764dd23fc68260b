"""Installs the project into a virtual environment and shows how far it is: `python install.py .venv demo`.

The versions are those of constraints.txt. Uses uv where it is installed, which takes a fraction of pip's time. Python
compiles files when they are first imported, not all at once.
"""

import re
import shutil
import subprocess
import sys
import threading
import time
import venv
from pathlib import Path

PACKAGES = {"demo": 146, "dev": 238}
"""Extra → number of packages that it comes to (`tests/test_packaging.py`)."""
_HEARTBEAT_S = 10.0
_FILE = re.compile(r"(?:Downloading|Using cached|Processing) \S*?([^/\s]+?)-\d\S*(?: \(([\d.]+) ([kMG])B\))?")
_MEGABYTES = {"k": 1e-3, "M": 1.0, "G": 1e3}


def main() -> None:
    if sys.version_info < (3, 11):  # noqa: UP036 - this file says so, in place of an error of the build
        sys.exit("Python 3.11 or newer is needed: make PYTHON=python3.11 ...")
    folder, extra = Path(sys.argv[1]), sys.argv[2]
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    # The build needs setuptools in the environment: its own would fetch another.
    parts = ["torch", "setuptools"], ["--no-build-isolation", "-e", f".[{extra}]"]
    print(f"installing about {PACKAGES[extra]} packages into {folder}; torch is the largest", flush=True)
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--no-compile"]
    uv, progress = shutil.which("uv"), Progress(PACKAGES[extra])
    for part in parts:
        options = ["-c", "constraints.txt", *part]
        if uv:  # shows its own progress
            code = subprocess.call([uv, "pip", "install", "--python", str(python), *options])
        else:
            code = progress.follow([*pip, *options])
        if code:
            sys.exit(code)


class Progress:
    """Says what pip is doing, in a line for each large file, and one every ten seconds."""

    def __init__(self, packages: int) -> None:
        self.packages = packages
        self.count, self.megabytes, self.doing = 0, 0.0, "looking for packages"
        self.spoken = time.monotonic()

    def follow(self, command: list[str]) -> int:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        ended = threading.Event()
        threading.Thread(target=self._beat, args=(ended,), daemon=True).start()
        last: list[str] = []
        assert process.stdout is not None
        for line in process.stdout:
            last = [*last[-20:], line]
            self._hear(line.strip())
        ended.set()
        if code := process.wait():
            sys.stderr.writelines(last)
            return code
        return 0

    def _hear(self, line: str) -> None:
        if match := _FILE.match(line):
            self.count += 1
            size = float(match[2]) * _MEGABYTES[match[3]] if match[2] else 0.0
            self.megabytes += size
            self.doing = f"{match[1]}{f', {size:.0f} MB' if size >= 1 else ''}"
            if size >= 20:
                self._say()
        elif line.startswith("Installing collected packages: "):
            self.doing = f"writing {line.count(',') + 1} packages"
            self._say()

    def _beat(self, ended: threading.Event) -> None:
        while not ended.wait(1.0):
            if time.monotonic() - self.spoken >= _HEARTBEAT_S:
                self._say()

    def _say(self) -> None:
        self.spoken = time.monotonic()
        fetched = f", {self.megabytes:.0f} MB downloaded" if self.megabytes >= 1 else ""
        print(f"  {self.count} of about {self.packages} packages{fetched}: {self.doing}", flush=True)


if __name__ == "__main__":
    main()
