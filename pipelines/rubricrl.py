"""RubricRL: rubrics are written from prompts before training, and an image generator is trained on what a judge says of
its images, criterion by criterion.

The generator and the rubrics do not wait for each other. Each stage takes its own configuration, so a change of one
leaves the finished work of those before it in place, and arms that differ in their training alone share the rest.
"""

from kfp import dsl

from rubricworks.components.data import prepare_prompts
from rubricworks.components.evaluation import score
from rubricworks.components.release import promote, rubricrl_report
from rubricworks.components.synthesis import write_prompt_rubrics
from rubricworks.components.training import pretrain_generator, train_generator
from rubricworks.kubeflow.arguments import output_of


@dsl.pipeline(name="rubricrl")
def rubricrl(
    run: str,
    prepare_prompts_config: str,
    write_prompt_rubrics_config: str,
    pretrain_generator_config: str,
    train_generator_config: str,
    score_config: str,
    promote_config: str,
    rubricrl_report_config: str,
) -> None:
    """Prompts in, a generator that draws them better out.

    Args:
        run: URI of the run's folder; started again with the same one, a run continues where it stopped.
        prepare_prompts_config: JSON of the stage's configuration, as for every `_config` below.
    """
    samples = output_of(prepare_prompts(config=prepare_prompts_config, run=run))
    rubrics = output_of(write_prompt_rubrics(config=write_prompt_rubrics_config, run=run, samples=samples))
    generator = output_of(pretrain_generator(config=pretrain_generator_config, run=run))

    policy = output_of(
        train_generator(config=train_generator_config, run=run, samples=samples, rubrics=rubrics, model=generator)
    )
    scores = output_of(
        score(config=score_config, run=run, samples=samples, rubrics=rubrics, model=generator, policy=policy)
    )
    promotion = output_of(promote(config=promote_config, run=run, scores=scores, policy=policy, samples=samples))
    rubricrl_report(config=rubricrl_report_config, run=run, promotion=promotion)
