"""Recaptioning for VLM pretraining (RubiCap, section 4.6), in the LLaVA-NeXT recipe: two captioners describe the same
images, and a VLM is trained on the captions of each.

The arms share the aligned model of stage 1 and the instructions of stage 2; only the captions of stage 1.5 differ. They
do not wait for each other, so on a cluster they train side by side on their pools.
"""

from kfp import dsl

from rubricworks.components.data import benchmark_questions, prepare
from rubricworks.components.evaluation import score
from rubricworks.components.release import recaption_pretrain_report
from rubricworks.components.synthesis import recaption
from rubricworks.components.training import align_projector, pretrain_baseline, pretrain_vlm, tune_baseline, tune_vlm
from rubricworks.kubeflow.arguments import output_of


@dsl.pipeline(name="recaption-pretrain")
def recaption_pretrain(
    run: str,
    prepare_config: str,
    recaption_config: str,
    align_projector_config: str,
    pretrain_vlm_config: str,
    tune_vlm_config: str,
    pretrain_baseline_config: str,
    tune_baseline_config: str,
    benchmark_questions_config: str,
    score_config: str,
    recaption_pretrain_report_config: str,
) -> None:
    """Images and two captioners in, a comparison of the VLMs that their captions pretrain out.

    Args:
        run: URI of the run's folder; started again with the same one, a run continues where it stopped.
        prepare_config: JSON of the stage's configuration, as for every `_config` below.
    """
    samples = output_of(prepare(config=prepare_config, run=run))
    captions = output_of(recaption(config=recaption_config, run=run, samples=samples))
    aligned = output_of(align_projector(config=align_projector_config, run=run, samples=samples, captions=captions))

    pretrained = output_of(
        pretrain_vlm(config=pretrain_vlm_config, run=run, samples=samples, captions=captions, model=aligned)
    )
    policy = output_of(tune_vlm(config=tune_vlm_config, run=run, samples=samples, model=pretrained))

    pretrained_baseline = output_of(
        pretrain_baseline(config=pretrain_baseline_config, run=run, samples=samples, captions=captions, model=aligned)
    )
    baseline = output_of(
        tune_baseline(config=tune_baseline_config, run=run, samples=samples, model=pretrained_baseline)
    )

    questions = output_of(benchmark_questions(config=benchmark_questions_config, run=run, samples=samples))
    scores = output_of(score(config=score_config, run=run, samples=questions, model=baseline, policy=policy))
    recaption_pretrain_report(config=recaption_pretrain_report_config, run=run, scores=scores)
