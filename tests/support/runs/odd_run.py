"""A run whose texts a database may refuse: NULs, a long name, a sample that no column holds."""

import json
from pathlib import Path

from served_api import ask, wait_for
from trained_run import NAMES, STAGE, rollout, write_run, write_shard

_RUN, _LAST = "a-odd", "z-sound"


def write_odd_run(folder: Path) -> None:
    """The run, and one that is indexed after it."""
    run = write_run(folder, _RUN, recipe="r" * 300)
    (run / "outcome.json").unlink()
    (run / "error.json").write_text(json.dumps({"stage": "judge", "message": "read \0 bytes, half of \ud83d"}))
    rollouts = [rollout(1, "a", "text", [1.0, 0.0, 1.0]), rollout(1, "s" * 300, "text", [1.0, 0.0, 1.0])]
    for drawn in rollouts:
        drawn["verdicts"][0]["criterion"] = "Names\0it"
    write_shard(run, 0, rollouts)
    write_run(folder, _LAST)


def check_odd_run(api: str) -> None:
    """Check that both runs are indexed, with the odd one's texts as far as a database takes them."""
    wait_for(lambda: ask(f"{api}/runs/{_LAST}/stages/{STAGE}/groups")[1].get("items"))
    run = ask(f"{api}/runs/{_RUN}")[1]
    assert (run["recipe"], run["message"]) == ("r" * 200, "judge: read \ufffd bytes, half of ?")
    groups = ask(f"{api}/runs/{_RUN}/stages/{STAGE}/groups?step=1")[1]["items"]
    assert [group["sample_id"] for group in groups] == ["a"], "no page could name the other sample"
    criteria = [item["criterion"] for item in ask(f"{api}/runs/{_RUN}/stages/{STAGE}/criteria")[1]["items"]]
    assert sorted(criteria) == sorted([NAMES[0], "Names\ufffdit", *NAMES[1:]])
