"""`rubricworks synthesize`: rubrics of images from a committee's captions, without a recipe.

It starts the same stages as a run, in a folder of its own, so it resumes like a run.
"""

from pathlib import Path

import click

from rubricworks.cli.options import api_key_option, parse_endpoint
from rubricworks.cli.single_steps.caption import caption_by_model, out_option, prompt_option, run_stage
from rubricworks.cli.single_steps.row_file import write_rows
from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.runs.folder_lock import lock_folder
from rubricworks.stages.data import prepare
from rubricworks.stages.synthesis import caption_committee, synthesize_rubrics


@click.command()
@click.argument("images")
@click.option("--committee", required=True, multiple=True, metavar="MODEL@URL", help="A captioner; give several.")
@click.option("--writer", required=True, metavar="MODEL@URL", help="The model that writes the rubrics.")
@click.option(
    "--student", help="Captioner to improve, a model directory or org/name@COMMIT; needed for discriminative rubrics."
)
@click.option("--coverage", type=click.Choice(["discriminative", "full"]), default="full", show_default=True)
@click.option("--guards/--no-guards", default=True, show_default=True, help="Standing criteria against padding.")
@prompt_option
@api_key_option
@out_option
def synthesize(
    images: str,
    committee: tuple[str, ...],
    writer: str,
    student: str | None,
    coverage: str,
    guards: bool,
    prompt: str,
    api_key_env: str | None,
    out: Path,
) -> None:
    """Caption IMAGES with a committee and write a rubric for each into OUT/rubrics.parquet.

    \b
    rubricworks synthesize photos/ --committee gemma@http://gpu1:8000/v1 --committee qwen@http://gpu2:8000/v1 \\
        --writer qwen@http://gpu2:8000/v1 --out rubrics/
    """
    if coverage == "discriminative" and student is None:
        raise UserError("discriminative rubrics ask what a student gets wrong: give --student, or --coverage full")
    with lock_folder(out.absolute()):
        samples = run_stage(out, "prepare", prepare.Config(source=images, prompt=prompt, train_only=True))
        teachers = tuple(parse_endpoint(teacher, api_key_env) for teacher in committee)
        inputs = {"samples": samples}
        inputs["captions"] = run_stage(out, "caption_committee", caption_committee.Config(teachers=teachers), **inputs)
        if student:
            inputs["student_captions"] = caption_by_model(out, student, 1024, samples)
        config = synthesize_rubrics.Config(
            writer=parse_endpoint(writer, api_key_env, max_tokens=4096),
            coverage=coverage,
            guards=guards,
            min_candidates=min(2, len(teachers)),
        )
        rubrics = run_stage(out, "synthesize_rubrics", config, **inputs)
        sources = {row["sample_id"]: row["source"] for row in read_rows(samples, columns=["sample_id", "source"])}
        rows = [
            {"sample_id": row["sample_id"], "source": sources[row["sample_id"]], "rubric": row["rubric"]}
            for row in read_rows(rubrics, columns=["sample_id", "rubric"])
        ]
    write_rows(rows, out / "rubrics.parquet")
