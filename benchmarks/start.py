"""Start-up time of the commands: `make bench-start`, or `python -m benchmarks.start [--runs N]`.

Each in a fresh process and in turn with `python -c pass`, whose time is part of all: medians, so that a process that
was not scheduled at once does not count. Of a stage that is done, what a run that is continued or reused pays for each:
it is found to be done, and its page is written.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

_COMMANDS = {
    "python -c pass": (["-c", "pass"], None),
    "import rubricworks": (["-c", "import rubricworks"], 0.15),
    "rubricworks --help": (["-m", "rubricworks.cli", "--help"], 0.4),
    "import …stages.launch": (["-c", "import rubricworks.runtime.launch"], None),
}
"""What is run → its arguments, and the seconds that it may take, where there is a target."""

_STAGE = """
import contextlib, io, json, sys
from pathlib import Path
from rubricworks.runtime.launch import launch
place = Path(sys.argv[1])
config = {"source": str(place / "images"), "held_out": 1}
with contextlib.redirect_stderr(io.StringIO()):
    launch("prepare", json.dumps(config), str(place / "run"), {}, view=str(place / "view.html"))
"""


def stage_of_four_images(place: Path) -> list[str]:
    """The arguments that make it, and find it done from then on."""
    (place / "images").mkdir()
    for number in range(4):
        Image.new("RGB", (64, 64), (60 * number, 90, 120)).save(place / "images" / f"{number}.png")
    return ["-c", _STAGE, str(place)]


def seconds(arguments: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs

    with tempfile.TemporaryDirectory() as place:
        commands = {**_COMMANDS, "a stage that is done": (stage_of_four_images(Path(place)), None)}
        for arguments, _ in commands.values():
            seconds(arguments)  # byte code is written, files come into memory, the stage is made
        times_of: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(runs):
            for name, (arguments, _) in commands.items():
                times_of[name].append(seconds(arguments))

    late = False
    print(f"{'seconds, ' + str(runs) + ' runs each':<24} {'median':>8} {'fastest':>8} {'target':>8}")
    for name, times in times_of.items():
        target = commands[name][1]
        median = statistics.median(times)
        late |= target is not None and median > target
        print(f"{name:<24} {median:>8.3f} {min(times):>8.3f} {f'< {target}' if target else '':>8}")
    sys.exit("slower than the target" if late else 0)


if __name__ == "__main__":
    main()
