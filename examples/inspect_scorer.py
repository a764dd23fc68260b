"""A rubric as a scorer of Inspect: JUDGE_URL=… JUDGE_MODEL=… inspect eval examples/inspect_scorer.py --model MODEL"""

import os

from inspect_ai import Task, task
from inspect_ai.dataset import Sample

from rubricworks.adapters.inspect_ai import rubric_scorer
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient

CRITERIA = [{"criterion": "names the cat", "evaluation_rule": "Passes if a cat is named.", "weight": 3}]


@task
def captions() -> Task:
    judge = ChatClient(os.environ["JUDGE_URL"], os.environ["JUDGE_MODEL"])
    sample = Sample(id="s1", input="Describe a cat on a mat.", metadata={"rubric": {"criteria": CRITERIA}})
    return Task(dataset=[sample], scorer=rubric_scorer(Grader(judge)))
