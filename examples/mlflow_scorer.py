"""A rubric as a scorer of MLflow: JUDGE_URL=… JUDGE_MODEL=… python examples/mlflow_scorer.py"""

import os

import mlflow.genai

from rubricworks.adapters.mlflow import RubricScorer
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient
from rubricworks.rubrics import Criterion, Rubric

cat = Criterion(criterion="names the cat", evaluation_rule="Passes if a cat is named.", weight=3)
dog = Criterion(criterion="invents a dog", evaluation_rule="Passes if a dog is named.", weight=-2)
rows = [{"inputs": {"prompt": "Describe it."}, "outputs": text} for text in ("A cat on a mat.", "A cat and a dog.")]
if __name__ == "__main__":
    judge = ChatClient(os.environ["JUDGE_URL"], os.environ["JUDGE_MODEL"])
    scorer = RubricScorer(Grader(judge), rubric=Rubric(criteria=(cat, dog)))
    for name, value in mlflow.genai.evaluate(data=rows, scorers=[scorer]).metrics.items():
        print(f"{name}: {value:.3f}")
