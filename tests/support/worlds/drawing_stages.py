"""The stages that draw responses of a model and ask judges about them, in small: configuration and inputs."""

import json
from pathlib import Path
from typing import Any

from asked_questions import prepare_questions, rubrics_table
from coloured_squares import SMALL
from scripted_server import say

from rubricworks.data.tables import read_samples
from rubricworks.rubrics import Criterion, Rubric


def drawing_stage(folder: Path, serve: Any, name: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the configuration and the inputs of `offline_filter` or `genrm_data`.

    Args:
        folder: made for the inputs: questions about pictures, one rubric, a model with random weights.
        serve: the fixture, for a server that answers as judge and as teacher.
    """
    from rubricworks.training.tiny.student import build_student

    criterion = {"criterion": "It names a colour.", "rationale": "r", "credit": 1}
    server = serve([say(json.dumps({"thought": "t", "essential": [criterion], "additional": []}))])
    rubric = Rubric(criteria=(Criterion(criterion="It names a colour.", reference="red", weight=1),))
    samples = prepare_questions(folder / "questions", pictures=5, held_out=1)
    rubrics = rubrics_table(folder / "made", {sample.sample_id: rubric for sample in read_samples(samples, "train")})
    student = folder / "warm_up"
    build_student(["how many 0 1 2 3 full none unclear ?"], student / "model", config=SMALL, seed=1)
    (student / "done.json").write_text('{"digest": "untrained"}')
    config: dict[str, Any] = {"shard_size": 2, "max_new_tokens": 6, "batch_size": 4}
    if name == "offline_filter":
        config |= {"judge": {"url": server.url, "model": "judge"}, "rollouts": 2, "keep": "all"}
    else:
        config |= {"teachers": [{"url": server.url, "model": model} for model in ("one", "two")], "responses_each": 2}
        config |= {"test": 2, "balance": False}
    return config, {"samples": str(samples), "rubrics": str(rubrics), "model": str(student)}
