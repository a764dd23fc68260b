"""Evaluation by itself: the models of the recipe respond to the samples, scorers measure the responses, and one
leaderboard shows what may be compared.
"""

from kfp import dsl

from rubricworks.components.data import prepare
from rubricworks.components.evaluation import score
from rubricworks.components.release import evaluation_report
from rubricworks.kubeflow.arguments import output_of


@dsl.pipeline(name="evaluate")
def evaluate(run: str, prepare_config: str, score_config: str, evaluation_report_config: str) -> None:
    """Models and samples in, a leaderboard out.

    Args:
        run: URI of the run's folder; started again with the same one, a run continues where it stopped.
        prepare_config: JSON of the stage's configuration, as for every `_config` below.
    """
    samples = output_of(prepare(config=prepare_config, run=run))
    scores = output_of(score(config=score_config, run=run, samples=samples))
    evaluation_report(config=evaluation_report_config, run=run, scores=scores)
