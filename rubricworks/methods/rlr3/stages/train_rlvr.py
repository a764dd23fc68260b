"""Train the RLVR baseline, which rewards the final answer alone, with RLR³'s trainer and samples.

It is RLR³ with one verifiable criterion and the last box as extractor, so no model is called, and the reward is the
verifier's score (section 4.5), or 0 for a response that never ended. Samples whose reference answer fits no verifier
are dropped and counted.
"""

from rubricworks.adapters.trl import GroupReward
from rubricworks.data.tables import read_rows
from rubricworks.grading.boxed import BoxedGrader, answer_rubric
from rubricworks.methods.rlr3.stages.train_rlr3 import Options, filtered_rubrics
from rubricworks.runtime.job import Job
from rubricworks.stages.training.policy_training import DeadLetters, refill_criterion, train, training_dataset
from rubricworks.stages.training.step_tables import scorecard_table


class Config(Options):
    pass


def run(config: Config, job: Job) -> None:
    filtered = filtered_rubrics(job)
    rubrics: dict[str, str] = {}
    for row in read_rows(job.inputs["samples"], columns=["sample_id", "answer", "options"]):
        if row["sample_id"] in filtered:
            try:
                rubrics[row["sample_id"]] = answer_rubric(
                    row["answer"] or "", options=bool(row["options"])
                ).model_dump_json()
            except ValueError:
                continue
    job.figures["without_an_answer"] = len(filtered) - len(rubrics)
    scorecards = scorecard_table()
    reward = GroupReward(
        BoxedGrader(),
        group_size=config.group_size,
        max_tokens=config.max_new_tokens,
        remap=False,
        gate=False,
        mask=False,
        criterion=refill_criterion(config, rubrics),
        sink=scorecards.add,
    )
    dataset = training_dataset(job, rubrics)
    train(config, config.policy_config(), job, dataset, [reward], scorecards, letters=DeadLetters(job))
