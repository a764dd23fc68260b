"""BalCapRL's claims: Tables 1 to 5 and 7, and two claims of this project on effects that the paper does not measure.

Each claim is one number per seed, from the seed's own run (the paper's weights) and its arms. Scores and shares are
between 0 and 1: a difference of 0.01 is one point of the paper's tables. Length is in tokens.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from rubricworks.claims import claim as claims
from rubricworks.claims.claim import OWN, Claim, Observation, Paper, Rule
from rubricworks.claims.settings import is_finished, read_scores
from rubricworks.evaluation.scoreboard import BASE, LENGTH, POLICY, WIN, Scoreboard
from rubricworks.grading.assertions.texts import has_words, text_states
from rubricworks.metrics.rankings import spearman
from rubricworks.reports.scores import response_rows, score_rows

VIEWS = {"dc_score": "DCScore", "caption_qa": "CaptionQA", WIN: "Arena"}
JUDGES = {"judge_mini": "a weaker judge", "judge_strong": "a stronger judge"}
ARMS = (
    *("full", "no_cgdpo", "no_precision", "no_recall", "no_linguistic", "no_pointability", "weak_references"),
    *("no_length", "linear", "gate_0_3", "gate_05_1", "gate_05_3"),
    *JUDGES,
    "sft",
)
SETTINGS = ("world.scenes=2800", "data.held_out=192", "warm_up.sft.steps=400", "policy.algorithm.steps=45")
"""Smaller than the recipe: five seeds with fourteen arms each take 40 minutes on two idle cores."""
NOTES = (
    "Arena is the share of comparisons with the base model that the policy wins, which takes the place of CapArena's "
    "Elo score; of the base model it is one half. Each seed's arms start from the same base model and are read on the "
    "same held-out images. Arms of Tables 3 and 4 weigh all rewards the same and are compared with “full”, as there.",
    "Commentary: a sentence names nothing visible if fewer than half of its content words stand in any reference "
    "caption of the held-out images, whether or not it is true. The rule reads captions and asks no judge.",
    "Table 5 has people's ranking; here stands the oracle's, which knows what is in the images and not how they are "
    "written about.",
    "Table 2 has general benchmarks; here the other task is one visual question on each picture, which the base model "
    "learnt beside the captions from worked answers, most of which guess. How SFT is done is ours.",
)
_ARENA_MARGIN = 0.05
_FORGET_MARGIN = 0.03
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


class CaptionResults(NamedTuple):
    """Results of one run."""

    board: Scoreboard
    commentary: dict[str, float | None]
    """`base` and `policy` → share of captions with a sentence that names nothing visible; see `commentary_share`."""


Check = claims.Check[CaptionResults]


def read_results(run: Path) -> CaptionResults:
    """Read the results of a run.

    Raises:
        UserError: the run is not of this pipeline, is not finished, or a file is damaged.
    """
    board, references = read_scores(run, "balcaprl"), []
    samples: set[str] = set()
    for row in score_rows(run, ["sample_id", "model", "scorer", "evidence"]):
        samples.add(row["sample_id"])
        if (row["scorer"], row["model"]) == ("b_capscore", BASE) and row["evidence"]:
            references.append(json.loads(row["evidence"])["reference"])
    captions: dict[str, list[str]] = {BASE: [], POLICY: []}
    for row in response_rows(run):
        if row["model"] in captions and row["decoding"] == board.decoding and row["sample_id"] in samples:
            captions[row["model"]].append(row["response"])
    return CaptionResults(board, {model: commentary_share(texts, references) for model, texts in captions.items()})


def commentary_share(captions: Sequence[str], references: Sequence[str]) -> float | None:
    """Share of captions with a commentary sentence, which names nothing visible and so nothing one could point to.

    A sentence is commentary if fewer than half of its content words are in any reference caption of the held-out
    images, whether or not it is true. None without captions or references.
    """
    if not captions or not references:
        return None
    parts = [(index, part) for index, text in enumerate(captions) for part in _SENTENCE_END.split(text)]
    sentences = [(index, part) for index, part in parts if has_words(part)]
    visible = text_states("\n".join(references), [part for _, part in sentences])
    commented = {index for (index, _), is_visible in zip(sentences, visible, strict=True) if not is_visible}
    return mean(index in commented for index in range(len(captions)))


def balcaprl_checks() -> Iterator[Check]:
    yield from _table_1()
    yield from _table_2()
    yield from _table_3()
    yield from _table_4()
    yield from _table_5()
    yield from _table_7()


def _table_1() -> Iterator[Check]:
    for score, words in (VIEWS | {"b_capscore": "b-CapScore"}).items():
        text = f"BalCapRL improves {words} over the base model"
        yield _more(f"improves-{_short(score)}", text, "Table 1", score, OWN, BASE)


def _table_2() -> Iterator[Check]:
    text = "Supervised training on the same data forgets another task: questions answered right, base model minus SFT"
    yield _more("sft-forgets", text, "Table 2", "visual_questions_right", BASE, "sft")
    text = f"BalCapRL does not forget it, up to {_FORGET_MARGIN:g}: questions answered right, BalCapRL minus base model"
    yield _more("balcaprl-keeps", text, "Table 2", "visual_questions_right", OWN, BASE, "not_worse", _FORGET_MARGIN)


def _table_3() -> Iterator[Check]:
    for score, words in VIEWS.items():
        text = f"Without c-GDPO {words} is lower: full method minus w/o c-GDPO"
        yield _more(f"cgdpo-{_short(score)}", text, "Table 3", score, "full", "no_cgdpo")
    text = "Without precision DCScore falls: full method minus w/o precision"
    yield _more("precision-dc", text, "Table 3", "dc_score", "full", "no_precision")
    text = f"Without precision Arena holds, up to {_ARENA_MARGIN:g}: w/o precision minus full method"
    yield _more("precision-arena", text, "Table 3", WIN, "no_precision", "full", "not_worse", _ARENA_MARGIN)
    for score in ("dc_score", "caption_qa"):
        text = f"Without linguistic quality {VIEWS[score]} rises: w/o linguistic minus full method"
        yield _more(f"linguistic-{_short(score)}", text, "Table 3", score, "no_linguistic", "full")
    text = "Without linguistic quality captions grow (the paper: threefold): tokens, w/o linguistic minus full method"
    yield _more("linguistic-length", text, "Table 3", LENGTH, "no_linguistic", "full")
    text = "Without linguistic quality Arena falls: full method minus w/o linguistic"
    yield _more("linguistic-arena", text, "Table 3", WIN, "full", "no_linguistic")
    for score, words in VIEWS.items():
        text = f"Without pointability {words} is lower: full method minus w/o pointability"
        yield _more(f"pointability-{_short(score)}", text, "Table 3", score, "full", "no_pointability")
    for score in ("dc_score", "caption_qa"):
        text = f"Weak references are worse than no recall reward: {VIEWS[score]}, w/o recall minus w/o recap"
        yield _more(f"references-{_short(score)}", text, "Table 3", score, "no_recall", "weak_references")
    text = (
        "Without pointability commentary grows: share of captions with a sentence that names nothing visible, "
        "w/o pointability minus full method"
    )
    yield Check(Claim(name="pointability-commentary", statement=text, source="Figure 3", ours=True), _commentary)


def _table_4() -> Iterator[Check]:
    source = "Table 4"
    text = "Without length control captions are shorter than the base model's: tokens, base minus w/o length penalty"
    yield _more("no-length-is-short", text, source, LENGTH, BASE, "no_length")
    text = "Without length control DCScore is lower: full method minus w/o length penalty"
    yield _more("no-length-dc", text, source, "dc_score", "full", "no_length")
    text = "An upper bound alone does not keep captions from shrinking: tokens, gate 0.5 to 3 minus gate 0 to 3"
    yield _more("lower-bound", text, source, LENGTH, "gate_05_3", "gate_0_3")
    text = "A larger upper bound gives longer captions: tokens, gate 0.5 to 2 minus gate 0.5 to 1"
    yield _more("upper-bound-2-1", text, source, LENGTH, "full", "gate_05_1")
    text = "A larger upper bound gives longer captions: tokens, gate 0.5 to 3 minus gate 0.5 to 2"
    yield _more("upper-bound-3-2", text, source, LENGTH, "gate_05_3", "full")
    text = "The gate is more balanced than the linear penalty: b-CapScore, gate minus linear"
    yield _more("gate-over-linear", text, "Table 4, balance", "b_capscore", "full", "linear", ours=True)


def _table_5() -> Iterator[Check]:
    text = (
        "b-CapScore ranks models as the truth does, at least as well as DCScore: Spearman with the oracle's ranking "
        "of the base model and all arms, b-CapScore minus DCScore"
    )
    yield Check(Claim(name="ranks-models", statement=text, source="Table 5", rule="not_worse"), _rankings)


def _table_7() -> Iterator[Check]:
    for arm, words in JUDGES.items():
        for score, view in VIEWS.items():
            text = f"Trained with {words} it improves {view} over the base model"
            yield _more(f"{arm.replace('_', '-')}-{_short(score)}", text, "Table 7", score, arm, BASE)


def _more(
    name: str,
    statement: str,
    source: str,
    score: str,
    better: str,
    worse: str,
    rule: Rule = "greater",
    margin: float = 0.0,
    ours: bool = False,
) -> Check:
    """Claim that a score of one policy is higher than another's."""
    claim = Claim(name=name, statement=statement, source=source, rule=rule, margin=margin, ours=ours)
    return Check(claim, partial(_difference, score, better, worse))


def _difference(score: str, better: str, worse: str, results: Mapping[str, CaptionResults]) -> Observation:
    values = {name: _value(score, name, results) for name in (better, worse)}
    if missing := [name for name, value in values.items() if value is None]:
        return Observation(None, f"no caption of {' and '.join(missing)} was judged ({score})")
    first, second = (float(value or 0.0) for value in values.values())
    places = 1 if score == LENGTH else 3
    return Observation(first - second, f"{better} {first:.{places}f}, {worse} {second:.{places}f}")


def _value(score: str, name: str, results: Mapping[str, CaptionResults]) -> float | None:
    """Mean score of an arm's policy, or of the base model."""
    if score == WIN and name == BASE:
        return 0.5
    board = results[OWN if name == BASE else name].board
    figure = board.mean(BASE if name == BASE else POLICY, score)
    return None if figure is None else figure.value


def _commentary(results: Mapping[str, CaptionResults]) -> Observation:
    without, full, base = (
        results["no_pointability"].commentary[POLICY],
        results["full"].commentary[POLICY],
        results[OWN].commentary[BASE],
    )
    if without is None or full is None:
        return Observation(None, "no held-out sample has a reference caption")
    return Observation(without - full, f"w/o pointability {without:.3f}, full {full:.3f}, base {base or 0.0:.3f}")


def _rankings(results: Mapping[str, CaptionResults]) -> Observation:
    names = [BASE, *results]
    means = {
        score: [_value(score, name, results) for name in names] for score in ("oracle_f1", "b_capscore", "dc_score")
    }
    if missing := [score for score, values in means.items() if None in values]:
        return Observation(None, f"not every model has a {missing[0]}")
    truth, balanced, detailed = ([value for value in values if value is not None] for values in means.values())
    b_cap, dc = (spearman(scores, truth) for scores in (balanced, detailed))
    if b_cap is None or dc is None:
        return Observation(None, "the models' means are all equal")
    return Observation(b_cap - dc, f"{len(names)} models: b-CapScore {b_cap:.3f}, DCScore {dc:.3f}")


def _short(score: str) -> str:
    return {"dc_score": "dc", "caption_qa": "qa", WIN: "arena", "b_capscore": "balance"}[score]


PAPER = Paper(
    "BalCapRL", "balcaprl-laptop", is_finished, read_results, balcaprl_checks, NOTES, arms=ARMS, overrides=SETTINGS
)
