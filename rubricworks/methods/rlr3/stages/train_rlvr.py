"""The baseline: RLVR, which rewards the final answer alone, in the same trainer on the same samples.

It is RLR³ with one verifiable criterion and the last box as extractor, so no model is called, and the reward is the
verifier's score itself (section 4.5), 0 where a response never ended. A sample whose reference answer no verifier can
hold is left out and counted.
"""

from rubricworks.adapters.trl import GroupReward
from rubricworks.data.tables import read_rows
from rubricworks.grading.boxed import BoxedGrader, answer_rubric
from rubricworks.methods.rlr3.stages.train_rlr3 import Options, kept_rubrics
from rubricworks.runtime.job import Job
from rubricworks.stages.training.policy_training import DeadLetters, train, training_dataset
from rubricworks.stages.training.step_tables import scorecard_table


class Config(Options):
    pass


def run(config: Config, job: Job) -> None:
    kept = kept_rubrics(job)
    rubrics: dict[str, str] = {}
    for row in read_rows(job.inputs["samples"], columns=["sample_id", "answer", "options"]):
        if row["sample_id"] in kept:
            try:
                rubrics[row["sample_id"]] = answer_rubric(
                    row["answer"] or "", options=bool(row["options"])
                ).model_dump_json()
            except ValueError:
                continue
    job.figures["without_an_answer"] = len(kept) - len(rubrics)
    scorecards = scorecard_table()
    reward = GroupReward(
        BoxedGrader(),
        group_size=config.group_size,
        max_tokens=config.max_new_tokens,
        remap=False,
        gate=False,
        mask=False,
        sink=scorecards.add,
    )
    dataset = training_dataset(job, rubrics)
    train(config, config.policy_config(), job, dataset, [reward], scorecards, letters=DeadLetters(job))
