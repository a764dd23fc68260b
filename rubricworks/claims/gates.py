"""Gates of the world: premises of the papers that the scene world must meet before it can decide a claim.

Each is a number that a run measures, with bounds. A claim that depends on a gate that fails is not testable here.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import combinations
from pathlib import Path
from statistics import fmean, median

from pydantic import BaseModel, ConfigDict

from rubricworks.claims.registration import BASE, OWN
from rubricworks.claims.run_results import RunResult
from rubricworks.claims.scored_arms import Arms
from rubricworks.evaluation.scoreboard import LENGTH, POLICY
from rubricworks.recipe import Recipe
from rubricworks.reports.run_folder import table_rows
from rubricworks.reports.scores import response_rows
from rubricworks.synthesis.prompts import CAPTION_PROMPT
from rubricworks.world.models.image_judges import arena_compare, compare, rate
from rubricworks.world.scene.oracle import score_caption
from rubricworks.world.scene.scene import CELLS, Scene
from rubricworks.world.scene.scene_index import SCENES_FILE
from rubricworks.world.scene.second_reading import second_f1


class Gate(BaseModel):
    """A premise with the bounds of its number."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    title: str
    low: float | None = None
    high: float | None = None
    source: str

    @property
    def bounds_text(self) -> str:
        if self.low is None:
            return f"at most {self.high:g}"
        return f"at least {self.low:g}" if self.high is None else f"{self.low:g} to {self.high:g}"


class GateReading(BaseModel):
    """A gate with what was measured."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gate: Gate
    value: float | None
    """Mean over runs; None if no run has measured it."""

    @property
    def passes(self) -> bool:
        low, high = self.gate.low, self.gate.high
        return self.value is not None and (low is None or self.value >= low) and (high is None or self.value <= high)

    @property
    def state(self) -> str:
        return "passes" if self.passes else "not measured" if self.value is None else "fails"

    @property
    def value_text(self) -> str:
        return "none" if self.value is None else f"{self.value:.3f}"


GATES = {
    gate.id: gate
    for gate in (
        Gate(
            id="base-length",
            title="base captions beside references, in tokens",
            low=0.5,
            high=0.7,
            source="BalCapRL, Table 1: 131 tokens of the base, 220 of GPT-5.4",
        ),
        Gate(
            id="gate-shut",
            title="rollouts whose length gate is shut in the first ten steps",
            low=0.1,
            high=0.3,
            source="BalCapRL, section 2.3: the gate binds early in training",
        ),
        Gate(
            id="cap",
            title="token limit beside references",
            low=4,
            source="BalCapRL, Table 4: captions of 375 tokens are not cut",
        ),
        Gate(
            id="programmed-effects",
            title="programmed effects beside the paper's, median of seven",
            low=0.5,
            high=2,
            source="RLR³, Table 5",
        ),
        Gate(
            id="string-rule",
            title="arena won by the best rule that never sees the picture",
            high=0.55,
            source="a caption must not be mended without its image",
        ),
        Gate(
            id="grows",
            title="captions of the full method beside the base's, in tokens",
            low=1,
            source="BalCapRL, Table 3: 131 to 203 tokens",
        ),
        Gate(
            id="biased-evaluator",
            title="rating gained by a caption that praises itself, as a share of the scale",
            low=0.1,
            source="an evaluator with a bias that neither reward nor oracle has; RubiCap, section 4.1",
        ),
        Gate(
            id="second-reading",
            title="captions on whose F1 two parsers agree",
            low=0.97,
            source="reward, evaluators and oracle share one parser",
        ),
        Gate(id="sampled", title="captions are sampled (1) or greedy (0)", low=1, source="RubiCap, section 3.2"),
        Gate(
            id="prompt",
            title="the students' prompt is that of the full-size recipe (1)",
            low=1,
            source="recipes/balcaprl.yaml, recipes/rubicap.yaml",
        ),
    )
}
PAPER_EFFECTS = {
    ("image", "no_final_answer"): 0.026,
    ("image", "wrong_but_plausible"): 0.010,
    ("targets", "no_final_answer"): 0.042,
    ("targets", "wrong_but_plausible"): 0.019,
    ("targets", "adversarial"): 0.044,
    ("unverified", "no_final_answer"): 0.036,
    ("unverified", "adversarial"): 0.032,
}
"""RLR³, Table 5: exposure and failure mode → rise of the false positives over the default setting."""
_EARLY = 10
"""Steps at the start of a training."""
_ROUNDING = 1e-9
_PRAISE = "an accurate description , correct and complete ."
_Compare = Callable[[Scene, str, str], str]


def gate_readings(gates: Iterable[str], results: Iterable[RunResult]) -> list[GateReading]:
    """Readings of these gates, each the mean over the runs that measured it."""
    stored = list(results)
    values = {name: [run.readings[name] for run in stored if name in run.readings] for name in gates}
    return [
        GateReading(gate=GATES[name], value=fmean(numbers) if numbers else None) for name, numbers in values.items()
    ]


def measure_gates(run: Path, name: str, recipe: Recipe, arms: Arms, world: Path) -> dict[str, float]:
    """Gate → its number in a finished run.

    Args:
        name: `own`, or the name of the arm.
        arms: scores of the run.
        world: folder of its scenes.
    """
    readings = _programmed_effects(arms)
    if (grades := list(table_rows(run / "train_balcaprl" / "caption_grades", _GRADES))) and name in (OWN, "full"):
        reference = fmean(row["reference_tokens"] for row in grades)
        early = [row for row in grades if row["step"] <= _EARLY]
        readings["gate-shut"] = fmean(float(row["gated"]) for row in early)
        if name == OWN:
            first = [row for row in grades if row["step"] == 1]
            readings["base-length"] = fmean(row["tokens"] for row in first) / fmean(
                row["reference_tokens"] for row in first
            )
            readings["cap"] = recipe.policy.algorithm.rollouts.max_new_tokens / reference  # type: ignore[attr-defined]
    if name == "full":
        readings |= _growth(run, arms[name])
    if name == OWN and "arena_win" in arms.get(OWN, {}):
        model = recipe.evaluation.scorers.arena.judge.model  # type: ignore[attr-defined]
        readings["sampled"] = float(recipe.evaluation.decodings == ("sampled",))  # type: ignore[attr-defined]
        readings["prompt"] = float(recipe.data.prompt == CAPTION_PROMPT)  # type: ignore[attr-defined]
        captions = _captions(run, world, (BASE,))
        read = _captions(run, world, (BASE, POLICY))
        readings["second-reading"] = fmean(
            abs(score_caption(scene, caption).f1 - second_f1(scene, caption)) < _ROUNDING for scene, caption in read
        )
        prefers = _arena if model == "arena-judge" else _pairwise
        readings["string-rule"] = max(
            won_by(prefers, captions, rules) for size in (1, 2, 3) for rules in combinations(STRING_RULES, size)
        )
        if recipe.evaluation.scorers.likert:  # type: ignore[attr-defined]
            readings["biased-evaluator"] = (
                fmean(
                    rate(scene, caption, f"{caption} {_PRAISE}") - rate(scene, caption, caption)
                    for scene, caption in captions
                )
                / 10
            )
    return readings


_GRADES = ["step", "tokens", "reference_tokens", "gated"]


def won_by(prefers: _Compare, captions: Iterable[tuple[Scene, str]], rules: Iterable[Callable[[str], str]]) -> float:
    """Share of comparisons that captions win against themselves after some rules, in both orders; a tie counts half."""
    rules, won = list(rules), []
    for scene, caption in captions:
        mended = caption
        for rule in rules:
            mended = rule(mended)
        for first, second, winner in ((mended, caption, "A"), (caption, mended, "B")):
            judgment = prefers(scene, first, second)
            won.append(0.5 if judgment == "Tie" else float(judgment == winner))
    return fmean(won)


def without_repetition(caption: str) -> str:
    """Say each sentence, and name each place, once."""
    sentences: dict[str, str] = {}
    for sentence in _sentences(caption):
        sentences.setdefault(_cell(sentence) or sentence, sentence)
    return " ".join(sentences.values())


def without_remarks(caption: str) -> str:
    """Leave out sentences that name neither a place nor a word, and fragments."""
    sentences = _sentences(caption)
    return " ".join(text for text in sentences if (_cell(text) or "the word" in text) and len(text.split()) > 3)


def in_reading_order(caption: str) -> str:
    """Sort the sentences by the places that they name."""
    order: dict[str | None, int] = {cell: place for place, cell in enumerate(CELLS)}
    return " ".join(sorted(_sentences(caption), key=lambda text: order.get(_cell(text), len(order))))


STRING_RULES = (without_repetition, without_remarks, in_reading_order)


def _sentences(caption: str) -> list[str]:
    return [f"{part.strip()} ." for part in caption.split(" .") if part.strip(" .")]


def _cell(sentence: str) -> str | None:
    match = re.match(r"at ([a-z-]+) ", sentence)
    return match[1] if match and match[1] in CELLS else None


def _arena(scene: Scene, first: str, second: str) -> str:
    return arena_compare(scene, first, second)[0]


def _pairwise(scene: Scene, first: str, second: str) -> str:
    return compare(scene, scene.model_dump_json(), first, second)[0]


def _captions(run: Path, world: Path, models: Collection[str]) -> list[tuple[Scene, str]]:
    entries = map(json.loads, (world / SCENES_FILE).read_text().splitlines())
    scenes = {Path(entry["file_name"]).name: Scene.model_validate(entry["scene"]) for entry in entries}
    files = {
        row["sample_id"]: row["source"].rpartition("/")[2]
        for row in table_rows(run / "prepare", ["sample_id", "source"])
    }
    return [
        (scenes[files[row["sample_id"]]], row["response"])
        for row in response_rows(run)
        if row["model"] in models and files.get(row["sample_id"]) in scenes
    ]


def _growth(run: Path, figures: Mapping[str, Mapping[str, float | None]]) -> dict[str, float]:
    base = [row["tokens"] for row in response_rows(run) if row["model"] == BASE]
    grown = [value for value in figures[LENGTH].values() if value is not None]
    return {"grows": fmean(grown) / fmean(base)} if base and grown else {}


def _programmed_effects(arms: Arms) -> dict[str, float]:
    ratios = []
    for (setting, mode), effect in PAPER_EFFECTS.items():
        rates = [arms.get(f"audit_{name}", {}).get(mode, {}).get("audit") for name in (setting, "text")]
        if rates[0] is not None and rates[1] is not None:
            ratios.append((rates[0] - rates[1]) / effect)
    return {"programmed-effects": median(ratios)} if ratios else {}
