"""RLR³, as in the paper's first figure: questions get checklists, responses are scored criterion by criterion, by an
extractor and a verifier or by a judge, and the policy is trained on the aggregate, beside RLVR on the same samples.

The GenRM that executes the checklists is trained first. With `serve: {genrm: {model: {stage: train_genrm}}}` the run
serves it to `audit` and `train_rlr3`, and trains the policy only if the audit passes its gate. Each stage takes its own
configuration, so a change of one leaves the work of those before it in place.
"""

from typing import NamedTuple

from kfp import dsl
from kfp.dsl.pipeline_channel import PipelineChannel

from rubricworks.components.data import offline_filter, open_questions, prepare_questions
from rubricworks.components.evaluation import audit, score
from rubricworks.components.release import promote, rlr3_report
from rubricworks.components.synthesis import genrm_data, write_checklists
from rubricworks.components.training import train_genrm, train_rlr3, train_rlvr, warm_up
from rubricworks.kubeflow.arguments import output_of


class SampleOutputs(NamedTuple):
    """Outputs of the stages up to the samples that the policy is trained on."""

    questions: PipelineChannel
    """The samples as they came."""
    samples: PipelineChannel
    rubrics: PipelineChannel
    filtered: PipelineChannel
    student: PipelineChannel
    """The model before training on rewards."""


def rlr3_samples(
    run: str,
    prepare_questions_config: str,
    open_questions_config: str,
    warm_up_config: str,
    write_checklists_config: str,
    offline_filter_config: str,
) -> SampleOutputs:
    """Build the stages up to the filtered samples, which a retraining shares."""
    questions = output_of(prepare_questions(config=prepare_questions_config, run=run))
    samples = output_of(open_questions(config=open_questions_config, run=run, samples=questions))
    student = output_of(warm_up(config=warm_up_config, run=run, samples=samples))
    rubrics = output_of(write_checklists(config=write_checklists_config, run=run, samples=samples))
    filtered = output_of(
        offline_filter(
            config=offline_filter_config, run=run, questions=questions, samples=samples, rubrics=rubrics, model=student
        )
    )
    return SampleOutputs(questions, samples, rubrics, filtered, student)


@dsl.pipeline(name="rlr3")
def rlr3(
    run: str,
    prepare_questions_config: str,
    open_questions_config: str,
    warm_up_config: str,
    write_checklists_config: str,
    offline_filter_config: str,
    genrm_data_config: str,
    train_genrm_config: str,
    audit_config: str,
    train_rlvr_config: str,
    train_rlr3_config: str,
    score_config: str,
    promote_config: str,
    rlr3_report_config: str,
) -> None:
    """Questions in, a better answerer out: rewards from checklists whose targets no model sees.

    Args:
        run: URI of the run's folder; started again with the same one, a run continues where it stopped.
        prepare_questions_config: JSON of the stage's configuration, as for every `_config` below.
    """
    outputs = rlr3_samples(
        run,
        prepare_questions_config,
        open_questions_config,
        warm_up_config,
        write_checklists_config,
        offline_filter_config,
    )

    # The reward model: labelled responses, SFT and RLVR, and what it, or another judge, credits wrongly.
    labelled = output_of(
        genrm_data(
            config=genrm_data_config,
            run=run,
            samples=outputs.samples,
            rubrics=outputs.rubrics,
            filtered=outputs.filtered,
            model=outputs.student,
        )
    )
    genrm = output_of(train_genrm(config=train_genrm_config, run=run, genrm_data=labelled))
    audit_task = audit(config=audit_config, run=run, genrm_data=labelled, samples=outputs.samples, genrm=genrm)
    audited = output_of(audit_task)

    # The policy is trained on what the reward model credits, if the audit passes its gate.
    policy_task = train_rlr3(
        config=train_rlr3_config,
        run=run,
        samples=outputs.samples,
        rubrics=outputs.rubrics,
        filtered=outputs.filtered,
        model=outputs.student,
        genrm=genrm,
    ).after(audit_task)
    policy = output_of(policy_task)

    # The other arm on the same samples; the two are compared over their milestones.
    baseline = output_of(
        train_rlvr(
            config=train_rlvr_config,
            run=run,
            samples=outputs.samples,
            rubrics=outputs.rubrics,
            filtered=outputs.filtered,
            model=outputs.student,
        )
    )
    scores = output_of(
        score(
            config=score_config,
            run=run,
            samples=outputs.samples,
            model=outputs.student,
            peer=baseline,
            policy=policy,
        )
    )
    promotion = output_of(
        promote(
            config=promote_config,
            run=run,
            scores=scores,
            policy=scores,
            samples=outputs.questions,
            audit=audited,
            genrm=genrm,
        )
    )
    rlr3_report(config=rlr3_report_config, run=run, promotion=promotion, audit=audited, genrm=genrm)
