"""Section of held-out samples with the responses of all models, and what scorers said of them.

The samples are drawn by a hash of their ids and the seed, not selected by their results.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rubricworks.data.response_images import IMAGES, ResponseImages, response_columns
from rubricworks.evaluation.scoreboard import BASE, POLICY, WIN, Scoreboard
from rubricworks.grading import GradedCaption
from rubricworks.reports.data import question_text
from rubricworks.reports.formats import number, share, whole
from rubricworks.reports.page import Block
from rubricworks.reports.parts import Card, Cards, Check, CheckList, Mark, Passage, Reason, Text
from rubricworks.reports.results import RUBRIC_STAGES
from rubricworks.reports.run_folder import NOUNS, RunFolder
from rubricworks.reports.scores import STAGE, ScoredResponse, preferred, scored_ids, scored_responses
from rubricworks.reports.training import response_passage
from rubricworks.rubrics import Criterion, Rubric, Scorecard, Verdict
from rubricworks.verifiers.boxed import last_boxed

_RIGHT = "answers_right"
_NAMES = {BASE: "Base model", POLICY: "Trained policy"}
_MAX_MODELS = 4
_NOTE = (
    "Drawn by a hash of their names, neither the best nor the worst; {} responses. A left mark is the base model's, a "
    "right one the policy's. In the pairwise judge's words, A and B are the two responses in the order in which it saw "
    "them."
)


def examples(run: RunFolder, *, names: Mapping[str, str] = _NAMES) -> Block:
    """Held-out samples with the responses of base and policy, and of others if they are few.

    Args:
        names: model → its name.
    """
    board, noun = run.board, NOUNS[run.source]
    title = f"Held-out {noun}s"
    ids = run.draw(scored_ids(run.path, board.base)) if board else []
    if board is None or not ids:
        return Block("examples", title, [Text("There are no held-out responses to show.", "missing")], name="Examples")
    responses = scored_responses(run.path, ids, decoding=board.decoding, steps=board.best)
    models = list(dict.fromkeys(scores.model for scores in board.models))
    candidate = board.candidate or board.base
    shown = models if len(models) <= _MAX_MODELS else [board.base, candidate]
    rubrics = {
        row["sample_id"]: Rubric.model_validate_json(row["rubric"])
        for stage in RUBRIC_STAGES
        for row in run.rows(stage, ["sample_id", "rubric"])
        if row["sample_id"] in ids
    }
    samples, images = run.samples(ids), ResponseImages(run.path / STAGE / "responses" / IMAGES)
    cards = []
    for sample_id in ids:
        sample = samples.get(sample_id, {})
        by_model = {model: responses[sample_id, model] for model in shown if (sample_id, model) in responses}
        favourite = preferred(by_model.get(candidate))
        base, policy = by_model.get(board.base), by_model.get(candidate)
        cards.append(
            Card(
                sample_id,
                run.picture(sample.get("image")),
                [
                    _passage(run, board, names.get(model, model), model, response, favourite, images)
                    for model, response in by_model.items()
                ],
                _criteria(rubrics.get(sample_id), base, policy),
                lead=_asked(sample),
                note=sample.get("task") or "",
                judgment=_judgment(favourite, compared=any(scores.means.get(WIN) for scores in board.models)),
                quote=policy.judgment if policy else "",
                reference=_reference(by_model.values()),
            )
        )
    return Block("examples", title, [Cards(cards, _NOTE.format(board.decoding))], name="Examples")


def _asked(sample: Mapping[str, Any]) -> list[Passage]:
    """The question with its answer, or the prompt of a sample without an image."""
    if sample.get("question"):
        return [Passage("Question", question_text(dict(sample)))]
    return [] if sample.get("image") or not sample.get("prompt") else [Passage("Prompt", sample["prompt"])]


def _judgment(favourite: str | None, *, compared: bool) -> str:
    if favourite is None:
        return "The pairwise judge gave no answer on this pair." if compared else ""
    if favourite == "neither":
        return "The pairwise judge sees a tie."
    return f"The pairwise judge prefers the {'trained policy' if favourite == POLICY else 'base model'}."


def _passage(
    run: RunFolder,
    board: Scoreboard,
    name: str,
    model: str,
    response: ScoredResponse,
    favourite: str | None,
    images: ResponseImages,
) -> Passage:
    kind = model if model in board.best else "base" if model == board.base else "policy"
    step = f", step {board.best[model]}" if model in board.best else ""
    name = f"{name}{step}"
    chosen = favourite == ("base" if model == board.base else "policy") and model in (board.base, board.candidate)
    graded = _graded(response)
    passage = Passage(
        name,
        "",
        _note(board, response),
        kind,
        "preferred" if chosen else _drawn_right(response),
        preferred=chosen,
        lists=[*_final_answer(name, response), *(_claims(graded) if graded else ())],
        missing=_why_not(response, graded),
    )
    return response_passage(run, passage, response_columns(response.response), images)


def _note(board: Scoreboard, response: ScoredResponse) -> str:
    """Values of the figures that are reported first, and the parts of b-CapScore."""
    figures = [figure for figure in board.titles if figure in board.headlines or figure.startswith("b_capscore_")]
    parts = [
        f"{board.title(figure)} {share(value) if 0 <= value <= 1 else number(value)}"
        for figure in figures
        if figure not in (WIN, _RIGHT) and (value := response.values.get(figure)) is not None
    ]
    reasons = json.loads(response.evidence.get("geneval", "{}")).get("reasons", ())
    return ", ".join([*parts, *([f"{whole(response.tokens)} tokens"] if response.tokens else []), *reasons])


def _drawn_right(response: ScoredResponse) -> str:
    """Verdict of GenEval's detector, which no training sees, on an image."""
    correct = response.values.get("geneval_correct")
    return "" if correct is None else "correct" if correct else "wrong"


def _final_answer(name: str, response: ScoredResponse) -> Iterator[CheckList]:
    """Content of the last box, and whether it is right."""
    if _RIGHT in response.values:
        final = last_boxed(response.text)
        title = "no box" if final is None else final or "(an empty box)"
        yield CheckList([Check(title, marks=[Mark(name, response.values[_RIGHT], "right", "wrong")])])


def _graded(response: ScoredResponse) -> GradedCaption | None:
    text = response.evidence.get("b_capscore")
    return GradedCaption.model_validate_json(text) if text else None


def _claims(graded: GradedCaption) -> Iterator[CheckList]:
    """Claims of the caption and of its reference, with the verdicts of b-CapScore's judge."""
    if graded.assertions is None:
        return
    caption, reference = graded.assertions.synthetic_features, graded.assertions.gt_features
    ratings = f"(clarity {caption.clarity_score}, fluency {caption.fluency_score}, coherency {caption.coherency_score})"
    claims = [(claim.text, claim.is_verified) for claim in caption.atomic_assertions]
    yield _claim_list(f"Claims of the caption {ratings}", claims, "verified", "not verified")
    covered = [(claim.text, claim.is_covered) for claim in reference.atomic_assertions]
    yield _claim_list("Claims of the reference", covered, "covered", "not covered")
    if graded.dropped:
        dropped = [Check(text, marks=[Mark("", None, judged=False)]) for text in graded.dropped]
        summary = f"{len(dropped)} that the judge listed, but the caption does not say"
        yield CheckList([], "", dropped, summary)


def _claim_list(title: str, claims: list[tuple[str, bool]], yes: str, no: str) -> CheckList:
    checks = [Check(text, marks=[Mark("", float(holds), yes, no)]) for text, holds in claims]
    held = [check for check, (_, holds) in zip(checks, claims, strict=True) if holds]
    failed = [check for check, (_, holds) in zip(checks, claims, strict=True) if not holds]
    return CheckList(failed, f"{title}: {len(held)} of {len(claims)} {yes}", held, f"{len(held)} {yes}")


def _why_not(response: ScoredResponse, graded: GradedCaption | None) -> str:
    """Reason why a caption has no claims; empty if it has some, or if none were requested."""
    if graded is None or graded.assertions is not None:
        return ""
    if graded.error is None:
        return "A caption without words earns nothing."
    return f"Could not be judged: {graded.message or 'the judge was not understood'}"


def _reference(responses: Any) -> str:
    return next((graded.reference for response in responses if (graded := _graded(response))), "")


def _criteria(rubric: Rubric | None, base: ScoredResponse | None, policy: ScoredResponse | None) -> list[CheckList]:
    """Criteria of the rubric with the verdicts on both responses; those met by both are folded."""
    verdicts = {"base": _verdicts(base), "policy": _verdicts(policy)}
    criteria: list[Criterion] = sorted(rubric.criteria if rubric else (), key=lambda criterion: -criterion.weight)
    titles = dict.fromkeys([*(criterion.criterion for criterion in criteria), *verdicts["base"], *verdicts["policy"]])
    known = {criterion.criterion: criterion for criterion in criteria}
    if not any(verdicts.values()) and not criteria:
        return []
    checks: list[Check] = []
    met: list[Check] = []
    for title in titles:
        of = {who: by_title.get(title) for who, by_title in verdicts.items()}
        (met if all(verdict and verdict.credit == 1 for verdict in of.values()) else checks).append(
            _check(title, known.get(title), of)
        )
    return [CheckList(checks, "", met, f"{len(met)} {'more ' if checks else ''}met by both")]


def _verdicts(response: ScoredResponse | None) -> dict[str, Verdict]:
    if response is None or "rubric" not in response.evidence:
        return {}
    scorecard = Scorecard.model_validate_json(response.evidence["rubric"])
    return {verdict.criterion: verdict for verdict in scorecard.verdicts}


def _check(title: str, criterion: Criterion | None, verdicts: Mapping[str, Verdict | None]) -> Check:
    marks = {
        who: Mark(who, verdict.credit) if verdict else Mark(who, None, judged=False)
        for who, verdict in verdicts.items()
    }
    before, after = (verdict.credit if verdict else None for verdict in verdicts.values())
    changed = "" if before is None or after is None or before == after else "gained" if after > before else "lost"
    return Check(
        title,
        weight=f"{criterion.weight:g}" if criterion else "",
        marks=list(marks.values()),
        change=changed,
        rule=(criterion.evaluation_rule or criterion.description) if criterion else "",
        reasons=[
            Reason(marks[who], verdict.reasoning) for who, verdict in verdicts.items() if verdict and verdict.reasoning
        ],
    )
