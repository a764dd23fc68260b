"""A rubric set as TRL trains on it, in one line:

    export JUDGE_URL=http://localhost:8000/v1 JUDGE_MODEL=Qwen/Qwen2.5-7B-Instruct
    python examples/trl_spec.py MODEL RUBRICS OUT [STEPS]

RUBRICS is what `rubricworks rubrics import` reads, with prompts: healthbench.jsonl, org/name@COMMIT/data, …
"""

import os
import sys

from trl import GRPOConfig, GRPOTrainer

from rubricworks.adapters.trl_spec import RubricSpec
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient

if __name__ == "__main__":
    model, rubrics, out, steps = (*sys.argv[1:], "100")[:4]
    judge = ChatClient(os.environ["JUDGE_URL"], os.environ["JUDGE_MODEL"])
    spec = RubricSpec(rubrics, Grader(judge, subject="answer"))
    args = GRPOConfig(
        out, max_steps=int(steps), num_generations=4, max_completion_length=64, bf16=False, logging_steps=1
    )
    GRPOTrainer(model, spec.reward_funcs, args=args, train_dataset=spec.train_dataset).train()
