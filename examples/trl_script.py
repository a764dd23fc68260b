"""Your own TRL script, with a rubric as its reward.

    export JUDGE_URL=http://localhost:8000/v1 JUDGE_MODEL=Qwen/Qwen2.5-7B-Instruct
    python examples/trl_script.py MODEL DATASET OUT [STEPS]

MODEL is any vision-language model of the Hub or a folder. DATASET was written by `Dataset.save_to_disk` and has the
columns `image`, `prompt` (a list of chat messages) and `rubric` (JSON, as `rubricworks synthesize` writes it).
"""

import os
import sys

from datasets import load_from_disk
from trl import GRPOConfig, GRPOTrainer

from rubricworks.adapters.trl import RubricReward
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient
from rubricworks.training.processing import load_processor  # AutoProcessor's, and the laptop student's

if __name__ == "__main__":
    model, dataset, out, steps = (*sys.argv[1:], "100")[:4]
    judge = ChatClient(os.environ["JUDGE_URL"], os.environ["JUDGE_MODEL"])
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=[RubricReward(Grader(judge))],
        train_dataset=load_from_disk(dataset),
        processing_class=load_processor(model, padding_side="left"),
        args=GRPOConfig(
            output_dir=out,
            max_steps=int(steps),
            num_generations=4,
            per_device_train_batch_size=8,
            max_completion_length=64,
            logging_steps=1,
            bf16=False,  # leave this out on a GPU
        ),
    )
    trainer.train()
    trainer.save_model(out)
