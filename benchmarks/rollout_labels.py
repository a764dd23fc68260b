"""Labels of rollouts in the scene world, drawn from all of a run, as people would give them who err in nothing: a CSV.

    python -m benchmarks.rollout_labels runs/noise/seed-1-noisy 400 > labels.csv

`make noise-correction` measures a judge's error rates by it (docs/judge-trust.md). A criterion's truth is its rule
applied to the caption. All of it is simulated, but for the student and its training.
"""

import csv
import random
import sys
from pathlib import Path

from rubricworks.data.rubric_sets import read_rubric_set
from rubricworks.data.tables import read_rows
from rubricworks.rubrics import Scorecard
from rubricworks.world.scene.rules import holds, parse_rule


def main() -> None:
    run, count = Path(sys.argv[1]), int(sys.argv[2])
    drawn = random.Random(1).sample(captions(run), count)
    rubrics = {entry.sample_id: entry.rubric for entry in read_rubric_set(str(run / "synthesize_rubrics"), note=str)}
    sheet = csv.writer(sys.stdout)
    sheet.writerow(["sample_id", "response", "criterion", "label"])
    for sample_id, caption in drawn:
        for criterion in rubrics[sample_id].criteria:
            rule = parse_rule(criterion.evaluation_rule)
            assert rule is not None, criterion.evaluation_rule
            sheet.writerow([sample_id, caption, criterion.criterion, int(holds(rule, caption))])


def captions(run: Path) -> list[tuple[str, str]]:
    """Sample and caption of each rollout that says something, once; a label cannot name an empty caption."""
    captions_by_sample = {}
    for row in read_rows(run / "train_policy" / "scorecards", columns=["scorecard"]):
        card = Scorecard.model_validate_json(row["scorecard"])
        assert card.response.text is not None, "captions are text"
        if card.response.text.strip():
            captions_by_sample[card.sample_id, card.response.text] = None
    return list(captions_by_sample)


if __name__ == "__main__":
    main()
