"""BalCapRL: a strong model rewrites the reference captions, and a captioner is trained on three rewards at once:
what it says is true and can be pointed at, what the reference says is covered, and it is well written.

The rewards come from one judge in one call, inside `train_balcaprl`; exams and the other views of the evaluation say
whether the gain is balanced. Each stage takes its own configuration, so a change of one leaves the finished work of
those before it in place, and runs that differ in their training alone can share the rest (`run --reuse`).
"""

from typing import NamedTuple

from kfp import dsl
from kfp.dsl.pipeline_channel import PipelineChannel

from rubricworks.components.data import prepare
from rubricworks.components.evaluation import score
from rubricworks.components.release import balcaprl_report, promote
from rubricworks.components.synthesis import peer_rubrics, recap, write_exams
from rubricworks.components.training import train_balcaprl, warm_up
from rubricworks.kubeflow.arguments import output_of


class PolicyOutputs(NamedTuple):
    """Outputs of the stages up to the trained policy."""

    images: PipelineChannel
    """The samples as they came."""
    samples: PipelineChannel
    """The samples with the references that captions are measured by."""
    exams: PipelineChannel
    student: PipelineChannel
    """The model before training on rewards."""
    policy: PipelineChannel


def balcaprl_policy(
    run: str,
    prepare_config: str,
    recap_config: str,
    warm_up_config: str,
    write_exams_config: str,
    peer_rubrics_config: str,
    train_balcaprl_config: str,
) -> PolicyOutputs:
    """Build the stages up to the trained policy, which a retraining shares."""
    images = output_of(prepare(config=prepare_config, run=run))

    # The student starts from the captions that came with the images, whatever it is measured against later.
    student = output_of(warm_up(config=warm_up_config, run=run, samples=images))
    samples = output_of(recap(config=recap_config, run=run, samples=images))
    exams = output_of(write_exams(config=write_exams_config, run=run, samples=images))
    # Empty but where RubiCap's reward is trained on instead.
    rubrics = output_of(peer_rubrics(config=peer_rubrics_config, run=run, samples=images, model=student))

    policy = output_of(
        train_balcaprl(config=train_balcaprl_config, run=run, samples=samples, model=student, rubrics=rubrics)
    )
    return PolicyOutputs(images, samples, exams, student, policy)


@dsl.pipeline(name="balcaprl")
def balcaprl(
    run: str,
    prepare_config: str,
    recap_config: str,
    warm_up_config: str,
    write_exams_config: str,
    peer_rubrics_config: str,
    train_balcaprl_config: str,
    score_config: str,
    promote_config: str,
    balcaprl_report_config: str,
) -> None:
    """Images in, a more balanced captioner out: precision, recall and writing, normalised each by itself.

    Args:
        run: URI of the run's folder; started again with the same one, a run continues where it stopped.
        prepare_config: JSON of the stage's configuration, as for every `_config` below.
    """
    outputs = balcaprl_policy(
        run,
        prepare_config,
        recap_config,
        warm_up_config,
        write_exams_config,
        peer_rubrics_config,
        train_balcaprl_config,
    )
    scores = output_of(
        score(
            config=score_config,
            run=run,
            samples=outputs.samples,
            exams=outputs.exams,
            model=outputs.student,
            policy=outputs.policy,
        )
    )
    promotion = output_of(
        promote(config=promote_config, run=run, scores=scores, policy=outputs.policy, samples=outputs.images)
    )
    balcaprl_report(config=balcaprl_report_config, run=run, promotion=promotion)
