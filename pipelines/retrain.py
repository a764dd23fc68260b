"""Scheduled retraining: once there is enough that the champion does not know, its recipe makes a challenger.

`find_new_samples` asks the model registry how the champion was made and from what, looks at the source again, and
decides. Too few new samples end the run there, well: "skipped: 12 new samples, 500 needed". Otherwise the stages of the
champion's own pipeline run on the grown source, with their configurations as the registry kept them, up to the trained
policy. Its evaluation has the champion in the place of the base: both describe, or answer, the same held-out samples,
none of which the champion was trained on, because samples are held out by a hash that growth does not disturb.
`challenge` holds the gate against it, registers the policy as the challenger, and makes it champion or waits for a
person to do so (`rubricworks promote`).

Which pipeline the champion came from is known only when it runs, so each has its branch. What is only for reports
(RLR³'s baseline arm) is not made again, nor is RLR³'s reward model: the champion's own rewards its challenger.
"""

from kfp import dsl

from rubricworks.components.data import find_new_samples
from rubricworks.components.evaluation import fetch_champion, score
from rubricworks.components.release import challenge
from rubricworks.components.training import train_rlr3
from rubricworks.kubeflow.arguments import output_of
from rubricworks.pipelines.balcaprl import balcaprl_policy
from rubricworks.pipelines.rlr3 import rlr3_samples
from rubricworks.pipelines.rubicap import rubicap_policy


@dsl.pipeline(name="retrain")
def retrain(run: str, find_new_samples_config: str, fetch_champion_config: str, challenge_config: str) -> None:
    """New samples in, a challenger out that was measured against the champion; or nothing, if too few are new.

    Args:
        run: URI of the run's folder; started again with the same one, a run continues where it stopped.
        find_new_samples_config: JSON of the stage's configuration, as for every `_config` below.
    """
    search = find_new_samples(config=find_new_samples_config, run=run)
    pipeline, new_samples, configs = search.outputs["Output"], search.outputs["found"], search.outputs["configs"]

    with dsl.If(pipeline == "rubicap", name="rubicap"):
        champion = output_of(fetch_champion(config=fetch_champion_config, run=run, found=new_samples))
        rubicap_outputs = rubicap_policy(run, *[configs] * 6)
        scores = score(
            config=configs,
            run=run,
            samples=rubicap_outputs.samples,
            rubrics=rubicap_outputs.rubrics,
            model=champion,
            policy=rubicap_outputs.policy,
        )
        challenge(
            config=challenge_config,
            run=run,
            found=new_samples,
            scores=output_of(scores),
            policy=rubicap_outputs.policy,
            samples=rubicap_outputs.samples,
        )

    with dsl.If(pipeline == "balcaprl", name="balcaprl"):
        champion = output_of(fetch_champion(config=fetch_champion_config, run=run, found=new_samples))
        balcaprl_outputs = balcaprl_policy(run, *[configs] * 6)
        scores = score(
            config=configs,
            run=run,
            samples=balcaprl_outputs.samples,
            exams=balcaprl_outputs.exams,
            model=champion,
            policy=balcaprl_outputs.policy,
        )
        challenge(
            config=challenge_config,
            run=run,
            found=new_samples,
            scores=output_of(scores),
            policy=balcaprl_outputs.policy,
            samples=balcaprl_outputs.images,
        )

    with dsl.If(pipeline == "rlr3", name="rlr3"):
        champion = output_of(fetch_champion(config=fetch_champion_config, run=run, found=new_samples))
        rlr3_outputs = rlr3_samples(run, *[configs] * 5)
        policy = output_of(
            train_rlr3(
                config=configs,
                run=run,
                samples=rlr3_outputs.samples,
                rubrics=rlr3_outputs.rubrics,
                filtered=rlr3_outputs.filtered,
                model=rlr3_outputs.student,
                genrm=champion,
            )
        )
        answers = output_of(
            score(
                config=configs,
                run=run,
                samples=rlr3_outputs.samples,
                model=champion,
                policy=policy,
            )
        )
        # Its best milestone stands for the policy.
        challenge(
            config=challenge_config,
            run=run,
            found=new_samples,
            scores=answers,
            policy=answers,
            samples=rlr3_outputs.questions,
        )
