"""Score models on the held-out samples: the tables `responses` and `scores`, and the scoreboard in `scores.json`.

The base comes first, and every other model is compared with it or with another opponent. A response that a scorer could
not judge has a row without a value, and a dead letter with the failed call. With `questions` the models also answer
visual questions, which measures what training on captions made them forget (BalCapRL, Table 2). `model` links to the
candidate's best milestone where milestones were scored.
"""

import asyncio
from itertools import islice

from rubricworks.data.tables import count_rows, read_rows
from rubricworks.evaluation.scoreboard import SCORES_FILE
from rubricworks.runtime.config import canonical_json
from rubricworks.runtime.job import Job
from rubricworks.stages.evaluation.responses import RESPONSES, write_responses
from rubricworks.stages.evaluation.score_config import AnyEvaluation, Evaluation, TextEvaluation
from rubricworks.stages.evaluation.scored_models import link_best, write_cards
from rubricworks.stages.evaluation.scoring import Scoring
from rubricworks.storage import write_atomic
from rubricworks.terminal import say
from rubricworks.tracking import stage_run

Config = AnyEvaluation
_TRACKED_ROWS = 48


def run(config: Evaluation, job: Job) -> None:
    if isinstance(config, TextEvaluation) and config.selects_by_reported:
        say(
            f"warning: the checkpoint is chosen by {config.select_by}, which is reported too, as in RLR³: "
            "it looks better than it is; the last one is on the board beside it"
        )
    scoring = Scoring(config, job)
    made_by = {"models": [model.model_dump(mode="json", exclude={"source"}) for model in scoring.models]}
    write_responses(config, job, scoring.batches, scoring.batch_count, **made_by)
    asyncio.run(scoring.write_scores())
    board = scoring.summarise()
    write_atomic(job.out / SCORES_FILE, canonical_json(board).encode())
    link_best(job, scoring.models, board)
    write_cards(job, scoring.models, board)
    job.figures.update(scores=count_rows(job.out), dead_letters=count_rows(job.out / "dead_letters"))
    with stage_run(job.run, job.stage) as log:
        log.log_metrics(board.metrics())
        for scores in board.models:
            if scores.step is not None:
                means = {f"{scores.model}/{figure}": mean.value for figure, mean in scores.means.items()}
                log.log_metrics(means, step=scores.step)
        log.log_table("held_out_responses", list(islice(read_rows(job.out / RESPONSES), _TRACKED_ROWS)))
