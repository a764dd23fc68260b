"""How long a user waits for nothing: `make bench-start`, or `python -m benchmarks.start [--runs N]`.

`import rubricworks` and `rubricworks --help`, each in a fresh process and in turn with `python -c pass`, whose time is
part of both: medians, so that a process that was not scheduled at once does not count.
"""

import argparse
import statistics
import subprocess
import sys
import time

_COMMANDS = {
    "python -c pass": (["-c", "pass"], None),
    "import rubricworks": (["-c", "import rubricworks"], 0.15),
    "rubricworks --help": (["-m", "rubricworks.cli", "--help"], 0.4),
}
"""What is run → its arguments, and the seconds that it may take."""


def seconds(arguments: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs

    for arguments, _ in _COMMANDS.values():
        seconds(arguments)  # byte code is written, files come into memory
    taken: dict[str, list[float]] = {name: [] for name in _COMMANDS}
    for _ in range(runs):
        for name, (arguments, _) in _COMMANDS.items():
            taken[name].append(seconds(arguments))

    late = False
    print(f"{'seconds, ' + str(runs) + ' runs each':<24} {'median':>8} {'fastest':>8} {'target':>8}")
    for name, times in taken.items():
        target = _COMMANDS[name][1]
        median = statistics.median(times)
        late |= target is not None and median > target
        print(f"{name:<24} {median:>8.3f} {min(times):>8.3f} {f'< {target}' if target else '':>8}")
    sys.exit("slower than the target" if late else 0)


if __name__ == "__main__":
    main()
