"""Stands in for `rubricworks run` of BalCapRL's laptop recipe: notes its call and leaves a finished run's folder.

It notes too whether the run to take from was finished. `behaviour.json` beside the runs names those that fail once.
"""

import json
import sys
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support" / "runs"))

from claimed_captions import write_captions

words = sys.argv[1:]
place = Path(words[words.index("--runs") + 1])
name = words[words.index("--resume" if "--resume" in words else "--run") + 1]
source = words[words.index("--reuse") + 1] if "--reuse" in words else None
ready = source is None or (place / source / "score" / "done.json").is_file()
with (place / "calls.jsonl").open("a") as calls:
    calls.write(json.dumps({"run": name, "words": words, "ready": ready}) + "\n")
behaviour = place / "behaviour.json"
told = json.loads(behaviour.read_text()) if behaviour.is_file() else []
_, seed, *arm = name.split("-")
settings = [word for flag, word in pairwise(words) if flag == "--set"]
recipe = place / name / "recipe.yaml"
stored = recipe.read_text() if recipe.is_file() else None
write_captions(place / name, arm[0] if arm else None, seed=int(seed), settings=settings)
if stored is not None:  # a run that goes on keeps its settings
    recipe.write_text(stored)
if name in told and "--resume" not in words:
    (place / name / "score" / "done.json").unlink()
    print("error: no room on /", file=sys.stderr)
    sys.exit(2)
