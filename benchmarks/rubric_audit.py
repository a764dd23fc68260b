"""Flags of `rubricworks rubrics audit` against faults planted in rubrics of the scene world, fault by fault.

`make bench-rubric-audit` runs it with 240 rubrics and the seeds 11, 12 and 13: about a minute. The planted faults and
the rules by which a flag is right are those of the test (`tests/evaluation/rubric_audit/test_planted_faults.py`).
"""

import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from planted_rubrics import FAULTS, planted_rubrics
from test_planted_faults import PROGRAM, audited, still_there, tally

from rubricworks.world.scene.export import export_scenes


def main() -> None:
    """Print figures of each seed, and of each flag over all of them."""
    count, *seeds = map(int, sys.argv[1:] or ("240", "11", "12", "13"))
    folder = Path(tempfile.mkdtemp())
    export_scenes(folder, seed=1, count=1)
    command = [sys.executable, "-c", PROGRAM, str(folder)]
    planted_count, found, right, wrong = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = f"{server.stdout.readline().strip()}/v1"
        for seed in seeds:
            planted = planted_rubrics(count, seed=seed)
            audit, fixes = audited(planted, url, folder / f"{seed}.sqlite")
            counted, faults = tally(planted, audit), Counter(one.fault for one in planted if one.fault)
            gone = faults.total() - still_there(planted, fixes).total()
            print(
                f"seed {seed}: found {counted.found.total()} of {faults.total()}, wrong {1 - counted.precision:.1%} of "
                f"all flags, gone {gone}; flagged {audit.flagged.value:.0%} → {fixes.audit.flagged.value:.0%}, gap "
                f"{audit.gap.value:.2f} → {fixes.audit.gap.value:.2f}"
            )
            planted_count, found = planted_count + faults, found + counted.found
            right, wrong = right + counted.right, wrong + counted.wrong
        server.send_signal(signal.SIGTERM)
    for name in FAULTS:
        share = found[name] / planted_count[name]
        print(
            f"{name:<14} found {found[name]} of {planted_count[name]} ({share:.0%}); others right {right[name]}, wrong "
            f"{wrong[name]}"
        )


if __name__ == "__main__":
    main()
