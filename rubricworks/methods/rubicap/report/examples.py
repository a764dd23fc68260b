"""Held-out images with the captions of both models and the verdicts on them, side by side.

The images are drawn by a hash of their ids and the seed, not selected by their results.
"""

from pathlib import Path
from typing import Any, NamedTuple

from rubricworks.evaluation.scoreboard import BASE, POLICY
from rubricworks.reports.run_folder import table_rows
from rubricworks.reports.samples import data_uri, draw_samples, sample_rows
from rubricworks.reports.scores import ScoredResponse, preferred, scored_ids, scored_responses
from rubricworks.rubrics import Rubric, Scorecard, Verdict

Responses = dict[tuple[str, str], ScoredResponse]
"""(sample_id, model) → scored response."""


class CriterionVerdicts(NamedTuple):
    """One criterion with the judge's verdicts on both captions."""

    title: str
    rule: str
    weight: float
    base: Verdict | None
    policy: Verdict | None

    @property
    def change(self) -> str:
        """Change in credit from base to policy: "gained", "lost" or ""."""
        before, after = (verdict.credit if verdict else None for verdict in (self.base, self.policy))
        if before is None or after is None or before == after:
            return ""
        return "gained" if after > before else "lost"

    @property
    def met_by_both(self) -> bool:
        return all(verdict is not None and verdict.credit == 1 for verdict in (self.base, self.policy))


class Example(NamedTuple):
    """One held-out image with both captions."""

    sample_id: str
    image: str | None
    """Data URI."""
    source: str
    base: ScoredResponse | None
    policy: ScoredResponse | None
    criteria: list[CriterionVerdicts]

    @property
    def not_met_by_both(self) -> list[CriterionVerdicts]:
        """Criteria that at least one caption does not meet."""
        return [criterion for criterion in self.criteria if not criterion.met_by_both]

    @property
    def met_by_both(self) -> list[CriterionVerdicts]:
        return [criterion for criterion in self.criteria if criterion.met_by_both]

    @property
    def preferred(self) -> str | None:
        """Preferred caption: "policy", "base" or "neither"; None without a comparison."""
        return preferred(self.policy)


def read_examples(run: Path, count: int, *, decoding: str, seed: int) -> list[Example]:
    """Read up to `count` evaluated samples, in the order of the draw."""
    ids = draw_samples(scored_ids(run), count, seed)
    responses = scored_responses(run, ids, decoding=decoding)
    rubrics = {
        row["sample_id"]: Rubric.model_validate_json(row["rubric"])
        for row in table_rows(run / "synthesize_rubrics", ["sample_id", "rubric"])
        if row["sample_id"] in ids
    }
    images = sample_rows(run / "prepare", set(ids), ["image", "source"])
    return [_example(sample_id, responses, rubrics.get(sample_id), images.get(sample_id)) for sample_id in ids]


def _example(sample_id: str, responses: Responses, rubric: Rubric | None, image: dict[str, Any] | None) -> Example:
    base, policy = responses.get((sample_id, BASE)), responses.get((sample_id, POLICY))
    before, after = _verdicts(base), _verdicts(policy)
    criteria = [
        CriterionVerdicts(
            title=criterion.criterion,
            rule=criterion.evaluation_rule or criterion.description,
            weight=criterion.weight,
            base=before.get(criterion.criterion),
            policy=after.get(criterion.criterion),
        )
        for criterion in sorted(rubric.criteria if rubric else (), key=lambda criterion: -criterion.weight)
    ]
    return Example(
        sample_id=sample_id,
        image=data_uri(image["image"]) if image else None,
        source=image["source"] if image else "",
        base=base,
        policy=policy,
        criteria=criteria,
    )


def _verdicts(response: ScoredResponse | None) -> dict[str, Verdict]:
    if response is None or "rubric" not in response.evidence:
        return {}
    scorecard = Scorecard.model_validate_json(response.evidence["rubric"])
    return {verdict.criterion: verdict for verdict in scorecard.verdicts}
