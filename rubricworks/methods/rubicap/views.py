"""Views of RubiCap's stages in the Kubeflow UI."""

from rubricworks.methods.rubicap.report.examples import Example, read_examples
from rubricworks.methods.rubicap.report.results import decoding_results, headline, page_decoding, read_evaluation
from rubricworks.reports.formats import number
from rubricworks.reports.views.parts import (
    CARD_COUNT,
    MAX_CHECKS,
    SEED,
    Card,
    Check,
    FinishedStage,
    Passage,
    View,
    picture,
)


def evaluation(stage: FinishedStage) -> View:
    """View of `evaluate`: scores of base and policy, and their captions side by side."""
    summary = read_evaluation(stage.run)
    if summary is None:
        return View("There is no evaluation.")
    decoding = page_decoding(summary)
    results = next((one for one in decoding_results(summary) if one.decoding == decoding), None)
    verdict = headline(summary.win_rate.get(decoding))
    examples = read_examples(stage.run, CARD_COUNT, decoding=decoding, seed=SEED)
    pictures = stage.samples(one.sample_id for one in examples)
    return View(
        sentence=verdict.text,
        mood=verdict.mood,
        metrics=summary.metrics(),
        comparisons=results.comparisons if results else (),
        win_rate=results.win_rate if results else None,
        cards_title=f"Before and after: {decoding} captions of held-out images",
        cards=[_before_and_after(one, picture(pictures.get(one.sample_id))) for one in examples],
    )


def _before_and_after(example: Example, image: str | None) -> Card:
    passages = [
        Passage(
            name,
            row["caption"],
            f"reward {number(row['rubric_reward'])}, {row['tokens']} tokens",
            kind,
            "preferred" if example.preferred == kind else "",
        )
        for kind, name, row in (("base", "Base model", example.base), ("policy", "Trained policy", example.policy))
        if row
    ]
    checks = [
        Check(
            f"{one.weight:g}",
            one.title,
            "",
            [(who, verdict.credit) for who, verdict in (("base", one.base), ("policy", one.policy)) if verdict],
            one.change,
        )
        for one in (*example.not_met_by_both, *example.met_by_both)
    ]
    judgment = (example.policy or {}).get("judgment") or ""
    return Card(example.sample_id, image, passages, checks[:MAX_CHECKS], judgment=judgment)
