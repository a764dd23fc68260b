"""All that the training and the evaluation of a policy on questions read, small enough to be made in seconds."""

import json
from pathlib import Path
from typing import Any

from asked_questions import prepare_questions, rubrics_table
from audited import write_stage_table
from coloured_squares import SMALL
from scripted_server import Said, say
from training_configs import sft_config

from rubricworks.data.tables import Sample, read_samples
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import close_job, open_job
from rubricworks.verifiers.boxed import answer_call, answer_predict, last_boxed

GIVES, LOOKS = "The final answer is right.", "The response looks at the left."
GROUP, LONGEST = 4, 16
WORD = {"question": "what stands there ?", "answer": "cat", "task": "word"}
BOX = {"question": "where is it ?", "answer": "[[0, 0, 10, 10]]", "task": "box"}
TAUGHT = {
    "count": ("it is at left . \\boxed{ 2 }", "it is at right . \\boxed{ 3 }", "\\boxed{ 2 }"),
    "colour": tuple(f"it is at {side} . \\boxed{{ {letter} }}" for side, letter in zip("ab", "AB", strict=True)),
    "box": tuple(f"\\boxed{{ [ [ 0 , 0 , 10 , {height} ] ] }}" for height in (3, 4, 8)),
    "word": (
        "at left \\boxed{ cat }",
        "\\boxed{ cat }",
        "\\boxed{ cats }",
        "at right \\boxed{ feline }",
        "it is " * 10,
    ),
}
"""What the student is taught to answer, right and wrong; the last word is one that never ends."""


def make_inputs(folder: Path) -> dict[str, str]:
    """Questions of four tasks about 10 pictures, 3 of them held out; rubrics, a filter's verdict, a student."""
    bare = {"open": "{question}", "choice": "{question}"}
    samples = prepare_questions(folder / "questions", pictures=10, held_out=12, more=[WORD, BOX], templates=bare)
    train = list(read_samples(samples, "train"))
    return {
        "samples": samples,
        "rubrics": str(rubrics_table(folder / "made", {sample.sample_id: rubric_of(sample) for sample in train})),
        "filtered": str(
            write_stage_table(folder / "filtered", "filtered", [_filtered(*row) for row in enumerate(train)])
        ),
        "model": str(_student(folder / "made", list(read_samples(samples)))),
    }


def rubric_of(sample: Sample) -> Rubric:
    """An answer that a verifier checks, or of a word a judge, and where the response looks."""
    reference = answer_call(sample.answer or "", options=bool(sample.options))
    answer = WORD["answer"] if sample.task == "word" else reference
    return Rubric(
        criteria=(
            Criterion(criterion=GIVES, reference=answer, weight=3, essential=True),
            Criterion(criterion=LOOKS, reference="left", weight=1, essential=False),
        )
    )


_CALLS = {"expr_verify": "expr_verify(target='?')", "bbox_verify": "bbox_verify(target=[[0, 0, 1, 1]])"}


def judge(_: int, body: dict[str, Any]) -> Said:
    """A scorer: copies what is in the box, credits words, and half credits near misses."""
    response = block(body, "response")
    result = last_boxed(response) or ""
    credit: dict[str, dict[str, float]] = {GIVES: {"cat": 1, "cats": 0.5}, LOOKS: {"left": 1, "right": 0.5}}

    def scored(item: dict[str, str]) -> dict[str, object]:
        name = item["criterion"]
        if item["reference"].endswith("_verify"):
            value: object = answer_predict(response, _CALLS[item["reference"]])
        else:
            words = [result] if name == GIVES else response.split()
            value = max((credit[name].get(word, 0) for word in words), default=0)
        return {"criterion": name, "rationale": "r", "credit": value}

    checklist = json.loads(block(body, "checklist"))
    return say(json.dumps({"thought": "t", **{part: list(map(scored, items)) for part, items in checklist.items()}}))


def block(body: dict[str, Any], tag: str) -> str:
    return body["messages"][1]["content"].split(f"<{tag}>\n")[1].split(f"\n</{tag}>")[0]


def _filtered(number: int, sample: Sample) -> dict[str, object]:
    row = {"any": True, "essential": True, "kept": number % 3 > 0, "multiple_choice": bool(sample.options)}
    return {"sample_id": sample.sample_id, **row, "rewards": "[]", "initial_reward": 0.5}


def _student(run: Path, samples: list[Sample]) -> Path:

    from rubricworks.training.sft import train_sft
    from rubricworks.training.tiny.student import build_student

    examples = [(sample.image, sample.prompt, text) for sample in samples for text in TAUGHT[sample.task or ""]]
    untrained = build_student(
        [text for _, prompt, answer in examples for text in (prompt, answer)],
        run / "untrained",
        config=SMALL,
        images=[image for image, _, _ in examples],
        seed=1,
    )
    job = open_job("warm_up", StageConfig(), run, {})
    train_sft(untrained, examples, job.out, sft_config(steps=80, batch_size=16, learning_rate=1e-2, save_every=1000))
    close_job(job, 0.0)
    return job.out
