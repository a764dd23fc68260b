"""A rubric's criteria as registered, versioned judges of MLflow, which then watch an experiment's traces:

OPENAI_API_KEY=… MLFLOW_TRACKING_URI=http://localhost:5000 python examples/mlflow_judges.py"""

import mlflow
from mlflow.genai.scorers import list_scorers

from rubricworks.adapters.mlflow_judges import criterion_judges
from rubricworks.rubrics import Criterion, Rubric

cat = Criterion(criterion="names the cat", evaluation_rule="Passes if a cat is named.", weight=3)
dog = Criterion(criterion="invents a dog", evaluation_rule="Passes if a dog is named.", weight=-2)
if __name__ == "__main__":
    experiment = mlflow.set_experiment("captions").experiment_id
    for judge in criterion_judges(Rubric(criteria=(cat, dog)), model="openai:/gpt-5-mini"):
        judge.register(experiment_id=experiment)
    print([scorer.name for scorer in list_scorers(experiment_id=experiment)])
