"""Stands in for `rubricworks run`: notes how it was called and leaves what a finished run has, or does as it is told.

`behaviour.json` beside the runs says per run: "fail" (once), "hang" (until a file `go` is there) or "late";
`together` is how many must run side by side first.
"""

import json
import os
import sys
import time
from pathlib import Path

words = sys.argv[1:]
place = Path(words[words.index("--runs") + 1])
name = words[words.index("--resume" if "--resume" in words else "--run") + 1]
run, active = place / name, place / "active"
told = json.loads((place / "behaviour.json").read_text())
active.mkdir(exist_ok=True)
(active / name).touch()
with (place / "calls.jsonl").open("a") as calls:
    calls.write(json.dumps({"run": name, "words": words, "threads": os.environ["OMP_NUM_THREADS"]}) + "\n")
deadline = time.monotonic() + 300
while len(list(active.iterdir())) < told.get("together", 1) and time.monotonic() < deadline:
    time.sleep(0.02)
(place / f"{name}.beside").write_text(str(len(list(active.iterdir()))))
time.sleep(0.3)
(run / "logs").mkdir(parents=True, exist_ok=True)
(run / "recipe.yaml").touch()
(run / "logs" / "train_rlr3.log").touch()
print("train_rlr3 | policy 3/9", file=sys.stderr, flush=True)
if told.get(name) == "hang":
    try:
        (place / "hanging").touch()
        while not (place / "go").exists() and time.monotonic() < deadline + 40:
            time.sleep(0.02)
    except KeyboardInterrupt:
        (place / f"{name}.interrupted").touch()
        sys.exit(130)
if told.get(name) == "fail" and "--resume" not in words:
    print("error: no room on /", file=sys.stderr)
    (active / name).unlink()
    sys.exit(2)
stages = ("write_checklists", "train_genrm", "audit", "train_rlvr", "train_rlr3", "score")
files = [f"{stage}/done.json" for stage in stages]
files += ["train_genrm/genrm.json", "audit/audit.json", "score/scores.json"]
for file in [*files, "train_rlr3/scorecards/.manifest.json"]:
    (run / file).parent.mkdir(parents=True, exist_ok=True)
    (run / file).touch()
(active / name).unlink()
sys.exit(3 if told.get(name) == "late" else 0)
