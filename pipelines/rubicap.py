"""RubiCap, as in the paper's first figure: a committee describes every image, a writer turns what it agrees on and the
student misses into a rubric, and the student is trained on how well it meets that rubric.

The figure's loop is `train_policy`; what stands before it makes its rubrics, what follows says whether it helped.
Each stage takes its own configuration, so a change of one leaves the finished work of those before it in place.
"""

from typing import NamedTuple

from kfp import dsl
from kfp.dsl.pipeline_channel import PipelineChannel

from rubricworks.components.data import prepare
from rubricworks.components.evaluation import score
from rubricworks.components.release import promote, report
from rubricworks.components.synthesis import caption_committee, caption_student, synthesize_rubrics
from rubricworks.components.training import train_policy, warm_up
from rubricworks.kubeflow.arguments import output_of


class PolicyOutputs(NamedTuple):
    """Outputs of the stages up to the trained policy."""

    samples: PipelineChannel
    rubrics: PipelineChannel
    student: PipelineChannel
    """The model before training on rewards."""
    policy: PipelineChannel


def rubicap_policy(
    run: str,
    prepare_config: str,
    warm_up_config: str,
    caption_committee_config: str,
    caption_student_config: str,
    synthesize_rubrics_config: str,
    train_policy_config: str,
) -> PolicyOutputs:
    """Build the stages up to the trained policy, which a retraining shares."""
    samples = output_of(prepare(config=prepare_config, run=run))

    # The committee and the student look at the same images; neither waits for the other.
    captions = output_of(caption_committee(config=caption_committee_config, run=run, samples=samples))
    student = output_of(warm_up(config=warm_up_config, run=run, samples=samples))
    student_captions = output_of(
        caption_student(config=caption_student_config, run=run, samples=samples, model=student)
    )

    rubrics = output_of(
        synthesize_rubrics(
            config=synthesize_rubrics_config,
            run=run,
            samples=samples,
            captions=captions,
            student_captions=student_captions,
        )
    )

    policy = output_of(
        train_policy(
            config=train_policy_config, run=run, samples=samples, rubrics=rubrics, model=student, captions=captions
        )
    )
    return PolicyOutputs(samples, rubrics, student, policy)


@dsl.pipeline(name="rubicap")
def rubicap(
    run: str,
    prepare_config: str,
    warm_up_config: str,
    caption_committee_config: str,
    caption_student_config: str,
    synthesize_rubrics_config: str,
    train_policy_config: str,
    score_config: str,
    promote_config: str,
    report_config: str,
) -> None:
    """Images in, a better captioner out: rubrics from a committee's consensus, then training on rubric rewards.

    Args:
        run: URI of the run's folder; started again with the same one, a run continues where it stopped.
        prepare_config: JSON of the stage's configuration, as for every `_config` below.
    """
    outputs = rubicap_policy(
        run,
        prepare_config,
        warm_up_config,
        caption_committee_config,
        caption_student_config,
        synthesize_rubrics_config,
        train_policy_config,
    )
    scores = output_of(
        score(
            config=score_config,
            run=run,
            samples=outputs.samples,
            rubrics=outputs.rubrics,
            model=outputs.student,
            policy=outputs.policy,
        )
    )
    promotion = output_of(
        promote(config=promote_config, run=run, scores=scores, policy=outputs.policy, samples=outputs.samples)
    )
    report(config=report_config, run=run, promotion=promotion)
