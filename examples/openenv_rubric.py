"""A rubric as OpenEnv's reward: JUDGE_URL=… JUDGE_MODEL=… python examples/openenv_rubric.py"""

import asyncio
import os
from types import SimpleNamespace

from rubricworks.adapters.openenv import RubricOfCriteria
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient
from rubricworks.rubrics import Criterion, Rubric

cat = Criterion(criterion="names the cat", evaluation_rule="Passes if a cat is named.", weight=3)
if __name__ == "__main__":
    judge = ChatClient(os.environ["JUDGE_URL"], os.environ["JUDGE_MODEL"])
    rubric = RubricOfCriteria(Rubric(criteria=(cat,)), Grader(judge))  # Environment(rubric=rubric) in an environment
    action, observation = SimpleNamespace(message="A cat on a mat."), SimpleNamespace(text="Describe it.")
    print(asyncio.run(rubric(action, observation)))
    print({child.title: child.last_score for child in rubric.children()})
