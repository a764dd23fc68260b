"""What the training of a captioner on rubrics reads, small enough to be made in seconds."""

from pathlib import Path
from typing import Any

from audited import write_stage_table
from coloured_squares import SMALL, squares

from rubricworks.rubrics import Criterion, Rubric
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import close_job, open_job

COLOURS = ("red", "green", "blue")


def rubric(colour: str) -> Rubric:
    pairs = ((colour, 3), ("square", 1))
    return Rubric(
        criteria=tuple(
            Criterion(criterion=word, evaluation_rule=f"passes if it says {word}", weight=weight)
            for word, weight in pairs
        )
    )


def caption_row(name: str, captioner: str, caption: str) -> dict[str, Any]:
    row = {"sample_id": name, "captioner": captioner, "model": captioner, "revision": "", "prompt_version": "1"}
    row |= {"endpoint": "", "seed": 0, "caption": caption}
    return row | {"prompt_tokens": 0, "completion_tokens": 0, "cost": 0.0}


def make_inputs(folder: Path) -> dict[str, str]:
    """Twelve squares, two held out and one without a caption; an untrained student; a committee's captions."""
    from rubricworks.training.tiny.student import build_student

    samples, rubrics, captions = [], [], []
    calls = {"prompt_tokens": 0, "completion_tokens": 0, "cost": 0.0}
    for number, (image, prompt, caption) in enumerate(squares()):
        name, split = f"s{number}", "held_out" if number in (3, 7) else "train"
        row = {"sample_id": name, "split": split, "image": image, "image_digest": str(number), "prompt": prompt}
        samples.append(row | {"references": [] if number == 5 else [caption, "another one"], "source": "squares"})
        written = {"rubric": rubric(COLOURS[number % 3]).model_dump_json(), "writer": "w", "prompt_version": "1"}
        rubrics.append({"sample_id": name, "coverage": "full", "candidates": 5} | written | calls)
        captions += [caption_row(name, "teacher", f"a {caption}"), caption_row(name, "other", "none of it")]
    captions = [row for row in captions if (row["sample_id"], row["captioner"]) != ("s0", "teacher")]
    job = open_job("warm_up", StageConfig(), folder / "made", {})
    build_student(
        [text for _, prompt, caption in squares() for text in (prompt, caption)],
        job.out / "model",
        config=SMALL,
        images=[image for image, _, _ in squares()],
        seed=1,
    )
    close_job(job, 0.0)
    return {
        "samples": str(write_stage_table(folder / "samples", "samples", samples)),
        "rubrics": str(write_stage_table(folder / "rubrics", "rubrics", rubrics)),
        "captions": str(write_stage_table(folder / "captions", "captions", captions)),
        "model": str(job.out),
    }
