"""One POST sent many times at once under one key, to a service whose runs `trained_run` wrote."""

from concurrent.futures import ThreadPoolExecutor

from served_api import Caller
from trained_run import NAMES, STAGE

LABELS = f"runs/today-1/stages/{STAGE}/labels"
LABEL = {"step": 1, "sample_id": "a", "response": "a star", "credits": {NAMES[0]: 1.0}}


def check_posts_at_once(caller: Caller, times: int = 8) -> None:
    """Check that labels sent `times` times at once are stored once, and that each caller gets the same answer."""
    who = "runner-of-many-posts"
    caller.secret(who)
    with ThreadPoolExecutor(times) as pool:
        answers = list(pool.map(lambda _: caller.post(who, LABELS, LABEL, key="posted-many-times"), range(times)))
    status, (label,) = answers[0]
    assert (status, label["criterion"], label["credit"]) == (201, NAMES[0], 1.0)
    assert answers == [answers[0]] * times
    changes = caller.get("changes?action=label.set&limit=200")["items"]
    assert [change["who"] for change in changes].count(who) == 1
    assert caller.post(who, LABELS, {**LABEL, "step": 2}, key="posted-many-times")[0] == 422, "another body"
