"""The whole RubiCap loop on one screen, with the library alone: two minutes on two cores, no GPU, no network.

    python examples/one_screen.py --seed 1          # after pip install '.[train]'

A small captioner learns to write from noisy captions. Five teachers describe every image, a writer turns what they
agree on into a rubric, and GRPO trains the captioner on what a judge, which sees no image, says of its captions. The
student is a real vision-language transformer of 0.7 M parameters. Images, teachers, writer and judge are simulated by
the scene world (docs/world.md), over HTTP as vLLM or GPT would be; its oracle, which knows the truth, only evaluates.

Left out, and in `rubricworks run quickstart`: resume, tables, budgets, dead letters, the comparison with the base by a
pairwise judge, the hacking alarm, MLflow, promotion and the report. A call that fails ends this script.
"""

import argparse
import asyncio
import logging
import os
import tempfile
from pathlib import Path
from statistics import fmean

from datasets import Dataset
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from rubricworks.adapters.trl import RubricReward
from rubricworks.cli.world import serve_world
from rubricworks.data import Sample
from rubricworks.data.sources import read_source
from rubricworks.evaluation.scorers.oracle import Oracle
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient, Endpoint, image_part, text_part
from rubricworks.recipe import WorldConfig
from rubricworks.synthesis import Candidate, RubricWriter
from rubricworks.training.config import SftConfig
from rubricworks.training.generate import decode_image, generate_captions, load_model
from rubricworks.training.progress import StepLines, quiet_libraries
from rubricworks.training.sft import train_sft
from rubricworks.training.tiny.student import build_student

PROMPT, MAX_TOKENS = "describe the image", 44
WARM_UP, TRAIN, HELD_OUT = 2560, 256, 128  # images


async def write_rubrics(url: str, samples: list[Sample], student_captions: list[str]) -> list[str]:
    """One rubric per image, as JSON: weighted yes-or-no questions about what most of the teachers say."""
    teachers = [ChatClient(url, f"teacher-{number}") for number in range(1, 6)]
    client = ChatClient(Endpoint(url=url, model="rubric-writer", max_tokens=8192))
    # The paper asks only for what the student misses, and a small policy then pads its captions (docs/world.md).
    writer = RubricWriter(client, coverage="full", guards=True)

    async def write(sample: Sample, student_caption: str) -> str:
        request = [{"role": "user", "content": [image_part(sample.image), text_part(PROMPT)]}]
        replies = await asyncio.gather(*(teacher.chat(request) for teacher in teachers))
        committee = [Candidate(captioner=f"teacher-{n}", caption=reply.value) for n, reply in enumerate(replies, 1)]
        return (await writer.write(sample, committee, [student_caption])).rubric.model_dump_json()

    rubrics = await asyncio.gather(*map(write, samples, student_captions))
    await asyncio.gather(*(teacher.close() for teacher in (client, *teachers)))
    return rubrics


async def evaluate(url: str, samples: list[Sample], captions: list[str], reward: RubricReward, rubrics: list[str]):
    """Mean rubric reward by the judge, mean F1 by the oracle, mean number of words."""
    graded = await reward.score([PROMPT] * len(captions), captions, rubric=rubrics)
    async with Oracle(f"{url}/oracle/score") as oracle:
        scores = [(await oracle.score(sample.image, [text]))[0] for sample, text in zip(samples, captions, strict=True)]
    return fmean(graded.rewards), fmean(score.f1 for score in scores), fmean(len(text.split()) for text in captions)


def main(url: str, folder: Path, seed: int, steps: int) -> None:
    items = read_source(str(folder / "world" / "images"))
    samples = [Sample(sample_id=item.key, image=item.image, references=item.references) for item in items]
    warm_up, train, held_out = samples[:WARM_UP], samples[WARM_UP:-HELD_OUT], samples[-HELD_OUT:]
    # A student that knows nothing learns to describe, from captions that are often wrong.
    examples = [(sample.image, PROMPT, sample.references[0]) for sample in warm_up]
    texts, images = [PROMPT, *(caption for _, _, caption in examples)], [image for image, _, _ in examples]
    student = build_student(texts, folder / "student", images=images, seed=seed)
    base = train_sft(student, examples, folder / "warm_up", SftConfig(steps=400, batch_size=32), seed=seed)
    model, processor = load_model(base)

    def captions(of: list[Sample]) -> list[str]:  # greedy, by the model as it is now
        pairs = [sample.image for sample in of], [PROMPT] * len(of)
        return [text for text, _ in generate_captions(model, processor, *pairs, max_new_tokens=MAX_TOKENS)]

    # Rubrics, for the images to train on and for those to evaluate on.
    rubrics = asyncio.run(write_rubrics(url, train + held_out, captions(train + held_out)))
    judge = ChatClient(url, "judge")
    reward = RubricReward(Grader(judge))
    before = asyncio.run(evaluate(url, held_out, captions(held_out), reward, rubrics[TRAIN:]))

    # Policy training: TRL draws a group of captions for each image, and the judge's verdicts are their rewards.
    turns = [{"role": "user", "content": PROMPT}]
    graded = zip(train, rubrics, strict=False)
    rows = [{"image": decode_image(sample.image), "prompt": turns, "rubric": rubric} for sample, rubric in graded]
    with quiet_libraries():
        options = GRPOConfig(
            output_dir=str(folder / "policy"), max_steps=steps, num_generations=8, per_device_train_batch_size=64,
            max_completion_length=MAX_TOKENS, learning_rate=1.5e-4, lr_scheduler_type="constant", loss_type="dr_grpo",
            seed=seed, bf16=False, disable_tqdm=True, report_to="none", dataloader_pin_memory=False)  # fmt: skip
        trainer = GRPOTrainer(model, [reward], options, Dataset.from_list(rows), processing_class=processor)
        trainer.add_callback(StepLines("policy", {"reward": "reward"}))
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    after = asyncio.run(evaluate(url, held_out, captions(held_out), reward, rubrics[TRAIN:]))
    asyncio.run(judge.close())
    print(f"simulated images, teachers and judge; a real student; {HELD_OUT} held-out images; seed {seed}")
    for name, *means in zip(("rubric reward", "oracle F1", "words"), before, after, strict=True):
        print(f"{name:15}" + " -> ".join(f"{mean:5.2f}" for mean in means))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=40)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    world = WorldConfig(scenes=WARM_UP + TRAIN + HELD_OUT, seed=given.seed)
    with tempfile.TemporaryDirectory() as scratch, serve_world(world, Path(scratch) / "world"):
        main(os.environ["RUBRICWORKS_WORLD_URL"], Path(scratch), given.seed, given.steps)
