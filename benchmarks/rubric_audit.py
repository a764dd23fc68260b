"""Flags of `rubricworks rubrics audit` against faults planted in rubrics of the scene world, fault by fault.

`make bench-rubric-audit` runs it with 240 rubrics and the seeds 11, 12 and 13, in all wordings of the faults: two
minutes. The planted faults and the rules by which a flag is right are those of the test
(`tests/evaluation/rubric_audit/test_planted_faults.py`).
"""

import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import get_args

from planted_rubrics import FAULTS, OF_RUBRICS, PlantedRubric, Wording, planted_rubrics
from test_planted_faults import PROGRAM, audited, fault_counts, is_true, others_of, still_there, tally

from rubricworks.evaluation.rubric_audit import RubricAudit
from rubricworks.metrics import wilson_interval
from rubricworks.world.scene.export import export_scenes


def main() -> None:
    """Print figures of each wording and seed, and of each flag over all of them."""
    count, *seeds = map(int, sys.argv[1:] or ("240", "11", "12", "13"))
    folder = Path(tempfile.mkdtemp())
    export_scenes(folder, seed=1, count=1)
    command = [sys.executable, "-c", PROGRAM, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = f"{server.stdout.readline().strip()}/v1"
        for wording in get_args(Wording):
            _measure(wording, count, seeds, url, folder)
        server.send_signal(signal.SIGTERM)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(f"CPU: {sum(usage.ru_utime + usage.ru_stime for usage in used):.0f} s, the scripted models' among them")


def _measure(wording: Wording, count: int, seeds: list[int], url: str, folder: Path) -> None:
    planted_count, caught, right, wrong = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    gameable = {name: Counter[tuple[bool, bool]]() for name in OF_RUBRICS}
    for seed in seeds:
        planted = planted_rubrics(count, seed=seed, wording=wording)
        started = time.monotonic()
        audit, fixes = audited(planted, url, folder / f"{wording}-{seed}.sqlite")
        seconds = time.monotonic() - started
        counted, faults = tally(planted, audit), fault_counts(planted)
        gone = faults.total() - still_there(planted, fixes).total()
        print(
            f"{wording} wording, seed {seed}: found {counted.found.total()} of {faults.total()}, wrong "
            f"{1 - counted.precision:.1%} of all flags, gone {gone}; flagged {audit.flagged.value:.0%} → "
            f"{fixes.audit.flagged.value:.0%}, gap {audit.gap.value:.2f} → {fixes.audit.gap.value:.2f}; {seconds:.0f} s"
        )
        planted_count, caught = planted_count + faults, caught + counted.found
        right, wrong = right + counted.right, wrong + counted.wrong
        for name, outcomes in _gameable(planted, audit).items():
            gameable[name] += outcomes
    for name in FAULTS:
        print(
            f"{name:<14} found {_share(caught[name], planted_count[name])}; others right {right[name]}, wrong "
            f"{wrong[name]}"
        )
    flags = caught.total() + right.total() + wrong.total()
    print(f"recall {_share(caught.total(), planted_count.total())}; precision {_share(flags - wrong.total(), flags)}")
    for name, outcomes in gameable.items():
        both = outcomes[True, True]
        print(
            f"gameable, {name}: recall {_share(both, both + outcomes[True, False])}, precision "
            f"{_share(both, both + outcomes[False, True])}"
        )


def _gameable(planted: list[PlantedRubric], audit: RubricAudit) -> dict[str, Counter[tuple[bool, bool]]]:
    """Flag of rubrics → number of rubrics by (gameable so by the rules themselves, flagged)."""
    outcomes = {name: Counter[tuple[bool, bool]]() for name in OF_RUBRICS}
    for at, (rubric, finding) in enumerate(zip(planted, audit.findings, strict=True)):
        names = {flag.flag for flag in finding.flags}
        for name in OF_RUBRICS:
            true = is_true(name, "", rubric.entry.rubric, rubric.captions, others_of(planted, at))
            outcomes[name][true, name in names] += 1
    return outcomes


def _share(part: int, whole: int) -> str:
    if not whole:
        return "none"
    figure = wilson_interval(part, whole)
    return f"{part} of {whole} ({figure.value:.0%}, {figure.low:.0%}-{figure.high:.0%})"


if __name__ == "__main__":
    main()
