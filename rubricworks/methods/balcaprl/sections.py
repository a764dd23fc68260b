"""Report of a BalCapRL run, and the page of the stage that rewrites references."""

from collections.abc import Iterable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rubricworks.data.alarm import Alarm
from rubricworks.evaluation.scoreboard import BASE, LENGTH, POLICY, WIN, Scoreboard
from rubricworks.methods.balcaprl.advantage_groups import REWARDS, gated_rewards, reward_groups
from rubricworks.metrics import Interval
from rubricworks.policy.policy import recorded_policy
from rubricworks.policy.rewards.caption_scores import CaptionScoresReward, LengthGate, LinearLength, Weights
from rubricworks.reports.charts import Series, SeriesChart, curve, series_chart, value_bounds
from rubricworks.reports.examples import examples
from rubricworks.reports.formats import (
    number,
    percent,
    percent_interval,
    points,
    share,
    signed,
    signed_interval,
    span,
    whole,
)
from rubricworks.reports.headline import Headline, Mood, direction, doubt, hero, is_small
from rubricworks.reports.page import Block, Report
from rubricworks.reports.parts import Card, Cards, Html, Notes, Passage, Text
from rubricworks.reports.record import RECORD
from rubricworks.reports.rendering import render_part
from rubricworks.reports.results import gain_tile, results, win_tile
from rubricworks.reports.run_folder import RunFolder, table_rows
from rubricworks.reports.run_summary import RunSummary, last_lines
from rubricworks.reports.training import Step, read_steps, training, training_block
from rubricworks.stages.release.judge_trust import audited_rubrics, judge_errors

TRAINING = "train_balcaprl"
SCORE_NAMES = {
    "b_capscore": "b-CapScore",
    "b_capscore_precision": "precision",
    "b_capscore_recall": "recall",
    "b_capscore_linguistic": "linguistic",
    "dc_score": "DCScore",
    "caption_qa": "CaptionQA",
    "oracle_f1": "Oracle F1",
    "visual_questions_right": "questions answered",
    LENGTH: "Tokens per caption",
}
"""Figure → name in a sentence."""
_LINES = ("b_capscore", "dc_score", "caption_qa", "oracle_f1", LENGTH)
_VIEWER = Path(__file__).parent / "advantage_viewer"
_GRADES = ["step", *REWARDS, "gated", "tokens", "reference_tokens"]
_SIMULATED = (
    "Scenes are generated; the captioners and recaptioner, the judges, the writer and the taker of exams are scripted, "
    "with stated error rates. The policy is a small model that is really trained. Which scores rise here says how the "
    "mechanism behaves with these faults, nothing of photographs or of large models."
)
_NOTES = (
    (
        "A judge's failure is no number.",
        "A rollout that could not be judged in any of the three rewards leaves its group's statistics and gets "
        "advantage 0; a held-out caption that could not be judged leaves the mean and is counted. An empty caption was "
        "judged: it earns nothing.",
    ),
    (
        "Pointability.",
        "Training and b-CapScore need not ask the same of a claim: b-CapScore accepts what visible evidence justifies, "
        "so its precision may stand higher than the reward's.",
    ),
    (
        "Other views.",
        "DCScore takes caption and reference apart into facts, matches them and checks what is left against the image. "
        "CaptionQA asks a text model multiple-choice questions about the image from the caption alone. The arena's "
        "judge sees image and both captions; a tie counts one half. An oracle knows the scene; training never sees it.",
    ),
    (
        "Intervals.",
        "95 % bootstrap over held-out images; where every image has 0 or every one 1, Wilson's. They tell of the "
        "images that were asked about, not of another training run. Several scores are compared at once, so one in "
        "twenty of those that nothing happened to looks as if something had.",
    ),
)


def opening(run: RunFolder) -> Block:
    """b-CapScore first, then scores that rose, fell, or show no clear change."""
    board = run.board
    tiles = [*(gain_tile(board, figure) for figure in _LINES[:3]), win_tile(board)] if board else []
    return hero(run, caption_headline(board), [tile for tile in tiles if tile], sentences=list(change_sentences(board)))


def caption_headline(board: Scoreboard | None) -> Headline:
    gain = board.gain(POLICY, "b_capscore") if board else None
    if board is None or gain is None:
        return Headline("Captions of the policy have not been compared with those of its base model.")
    base, policy = (mean.value for model in (BASE, POLICY) if (mean := board.mean(model, "b_capscore")))
    scores = f"b-CapScore {share(base)} → {share(policy)}, {points(gain.value)} points ({span(gain)})"
    if is_small(gain):
        return Headline(f"Too few captions to tell: {scores}, over {gain.samples} images.")
    mood = direction(gain)
    openings = {
        "good": "The policy writes better captions than its base model",
        "bad": "The policy writes worse captions than its base model",
        "open": "The policy's captions are not distinguishable from its base model's",
    }
    return Headline(f"{openings[mood]}: {scores}.", mood)


def change_sentences(board: Scoreboard | None) -> Iterable[Headline]:
    """Sentences of scores that are better, worse or not distinguishable, and of the length; only measured scores."""
    if board is None:
        return
    changes: dict[str, list[str]] = {"Better": [], "Worse": [], "Not distinguishable": [], "Too few images to tell": []}
    for figure, name in SCORE_NAMES.items():
        if figure not in ("b_capscore", LENGTH) and (gain := board.gain(POLICY, figure)):
            changes[_verdict(gain)].append(f"{name} {points(gain.value)} ({span(gain)})")
    if win := board.mean(POLICY, WIN):
        changes[_verdict(win, 0.5)].append(f"arena {percent(win.value)} won ({percent_interval(win)})")
    moods: dict[str, Mood] = {"Better": "good", "Worse": "bad"}
    for word, of in changes.items():
        if of:
            yield Headline(f"{word}: {'; '.join(of)}.", moods.get(word, "open"))
    if length := board.gain(POLICY, LENGTH):
        base, policy = (mean.value for model in (BASE, POLICY) if (mean := board.mean(model, LENGTH)))
        words = {"Better": "longer", "Worse": "shorter", "Not distinguishable": "no clear change"}
        word = words.get(_verdict(length), "too few images to tell")
        tokens = f"{number(base, 1)} → {number(policy, 1)} tokens ({signed_interval(length, 1)})"
        yield Headline(f"Length: {word}, {tokens}.")


def _verdict(gain: Interval, level: float = 0.0) -> str:
    if is_small(gain):
        return "Too few images to tell"
    return {"good": "Better", "bad": "Worse", "open": "Not distinguishable"}[direction(gain, level)]


class RewardStep(NamedTuple):
    """Means over the rollouts of one training step."""

    step: int
    rollouts: int
    unjudged: int
    rewards: dict[str, float]
    """Precision, recall and linguistic after the length gate, over judged rollouts; empty if there are none."""
    shut: float | None
    """Share of the judged rollouts that the length gate shut out."""
    tokens: float
    ratio: float | None
    """Tokens of the caption per token of its reference."""


def reward_steps(rows: Iterable[dict[str, Any]]) -> list[RewardStep]:
    """Average rows of `caption_grades` per training step, in order."""
    sums: dict[int, dict[str, float]] = {}
    for row in rows:
        step = sums.setdefault(
            row["step"], dict.fromkeys(("rollouts", "judged", "shut", "tokens", "measured", "ratio", *REWARDS), 0.0)
        )
        step["rollouts"] += 1
        step["tokens"] += row["tokens"]
        if row["reference_tokens"]:
            step["measured"] += 1
            step["ratio"] += row["tokens"] / row["reference_tokens"]
        if (rewards := gated_rewards(row)) is not None:
            step["judged"] += 1
            step["shut"] += bool(row["gated"])
            for name, reward in zip(REWARDS, rewards, strict=True):
                step[name] += reward
    return [
        RewardStep(
            step=at,
            rollouts=int(total["rollouts"]),
            unjudged=int(total["rollouts"] - total["judged"]),
            rewards={name: total[name] / total["judged"] for name in REWARDS} if total["judged"] else {},
            shut=total["shut"] / total["judged"] if total["judged"] else None,
            tokens=total["tokens"] / total["rollouts"],
            ratio=total["ratio"] / total["measured"] if total["measured"] else None,
        )
        for at, total in sorted(sums.items())
    ]


def balanced_training(run: RunFolder) -> Block:
    """Curves of the three rewards, the captions' length, and the share of shut gates; of one reward for the peers."""
    gate = _length_gate(run)
    steps = reward_steps(run.rows(f"{TRAINING}/caption_grades", _GRADES))
    if not steps:
        return replace(training(run, noun="caption"), details={"training": None})
    judged = [step.rewards for step in steps if step.rewards]
    details = {
        "steps": len(steps),
        "rewards": {name: [judged[0][name], judged[-1][name]] for name in (judged[0] if judged else ())},
        "unjudged": sum(step.unjudged for step in steps),
    }
    gated = "Linguistic is what the policy was paid: 0 behind a shut length gate."
    of_grades = [Step(step.step, step.rollouts, step.unjudged, None, step.tokens, {}) for step in steps]
    return training_block(
        run,
        {TRAINING: read_steps(run.path, TRAINING) or of_grades},
        reward_charts(steps, gate, run.alarm(TRAINING)),
        note=gated if gate else "",
        metrics={f"{name}_reward": value for name, value in (judged[-1] if judged else {}).items()},
        details={"training": details},
    )


def _caption_scores(run: RunFolder) -> CaptionScoresReward | None:
    """The reward of the run's training, unless it has another one or no recipe."""
    policy = recorded_policy(run.recipe)
    return policy.reward if policy and isinstance(policy.reward, CaptionScoresReward) else None


_DEFAULT_GATE = LengthGate(type="gate")


def _length_gate(run: RunFolder) -> tuple[float, float] | None:
    """Bounds of the length gate; those of the default for a run without a recipe."""
    if recorded_policy(run.recipe) is None:
        return _DEFAULT_GATE.lower, _DEFAULT_GATE.upper
    reward = _caption_scores(run)
    length = reward.length if reward else None
    return (length.lower, length.upper) if isinstance(length, LengthGate) else None


def reward_charts(steps: list[RewardStep], gate: tuple[float, float] | None, alarm: Alarm | None) -> list[SeriesChart]:
    """Charts of rewards, length ratio, shut gates and tokens over training steps.

    Args:
        gate: bounds of the length ratio; None for a training without a gate, which has no chart of it.
    """
    marks = [(float(alarm.step), f"alarm, step {alarm.step}")] if alarm and alarm.step is not None else []
    rewards = [
        Series(name, name.capitalize(), [(float(step.step), step.rewards[name]) for step in steps if step.rewards])
        for name in REWARDS
    ]
    charts = [series_chart("Rewards", rewards, bounds=(0.0, 1.0), marks=marks, smooth=True, gap=11.0)]
    ratios = [(float(step.step), step.ratio) for step in steps if step.ratio is not None]
    if ratios:
        ends = ratios[0][0], ratios[-1][0]
        walls = [Series("wall", f"gate {bound:g}", [(ends[0], bound), (ends[1], bound)]) for bound in gate or ()]
        lines = [Series("policy", "captions", ratios), *walls]
        bounds = value_bounds([0.0, *(ratio for _, ratio in ratios), *(gate or ())])
        title = "Tokens by tokens of the reference"
        charts.append(series_chart(title, lines, bounds=bounds, marks=marks, smooth=True, gap=11.0))
    if gate:
        shut = [(float(step.step), step.shut) for step in steps if step.shut is not None]
        charts.append(curve("Share of shut gates", shut, bounds=(0.0, 1.0), marks=marks))
    tokens = [(float(step.step), step.tokens) for step in steps]
    charts.append(curve("Tokens per caption", tokens, marks=marks, places=1))
    return [chart for chart in charts if chart]


def advantages(run: RunFolder) -> Block:
    """Interactive maps of what the rewards of real rollouts are worth, by GRPO and by c-GDPO."""
    reward, policy = _caption_scores(run), recorded_policy(run.recipe)
    weights = (reward.weights if reward else Weights()).in_order
    groups = reward_groups(run.path, weights, seed=run.seed)
    title = "What a rollout's rewards are worth"
    if not groups:
        text = "There is no group to show: no graded group of this run has three judged rollouts."
        return Block("advantages", title, [Text(text, "missing")], name="Advantages")
    data = [{"rewards": compared.group.rewards, "rest": asdict(compared.rest)} for compared in groups]
    viewer = render_part(
        "viewer.html",
        folder=_VIEWER,
        groups=groups,
        rewards=REWARDS,
        weights=weights,
        linear=reward is not None and isinstance(reward.length, LinearLength),
        grpo=policy is not None and getattr(policy.algorithm, "advantages", "c-gdpo") != "c-gdpo",
        viewer={"rewards": REWARDS, "weights": weights, "groups": data},
    )
    return Block(
        "advantages",
        title,
        [Html(viewer)],
        name="Advantages",
        styles=[_VIEWER / "viewer.css"],
        scripts=[_VIEWER / "advantages.js", _VIEWER / "advantage_viewer.js"],
    )


def method_notes(run: RunFolder) -> Block:
    policy = recorded_policy(run.recipe)
    rewards = policy.describe() if policy else "The run has no recipe, so its reward is not known here."
    notes = [("Rewards of this training.", rewards), *_NOTES]
    if run.recipe.get("world"):
        notes.insert(0, ("What is simulated.", _SIMULATED))
    return Block("method", "How to read this", [Notes(notes)], name="Method")


def rewritten_references(run: RunFolder) -> Block:
    """Reference captions before and after: page of `recap`."""
    recaptioned = {row["sample_id"] for row in run.rows(f"{run.stage}/captions", ["sample_id"])}
    ids = run.draw(sorted(recaptioned)) if recaptioned else run.draw_from(run.out)
    before, after = run.samples(ids), run.samples_of(run.out, ids)
    count = sum(1 for _ in table_rows(run.out, ["sample_id"]))
    sentence = (
        f"{whole(len(recaptioned))} of {whole(count)} reference captions were written anew."
        if recaptioned
        else f"{whole(count)} samples keep the captions that they came with: no captioner was named."
    )
    cards = [
        Card(
            key,
            run.picture(before.get(key, {}).get("image")),
            [
                Passage("Came with the image", _first_reference(before.get(key)), kind="base"),
                Passage("Reference now", _first_reference(row), kind="policy"),
            ],
        )
        for key, row in after.items()
    ]
    metrics = {"samples": float(count), "rewritten": float(len(recaptioned))}
    return Block("references", "Before and after", [Text(sentence), Cards(cards)], metrics=metrics)


def _first_reference(row: dict[str, Any] | None) -> str:
    return next(iter(row["references"]), "") if row else ""


def success_lines(summary: RunSummary) -> list[str]:
    lines = []
    for figure in _LINES:
        scores = summary.scores.get(figure)
        if scores and scores.base is not None and scores.policy is not None and scores.gain:
            gain, unclear = scores.gain, f", {doubt(scores.gain, samples='images')}".removesuffix(", ")
            if figure == LENGTH:
                pair = f"{number(scores.base, 1)} → {number(scores.policy, 1)}"
                amount = f"{signed(gain.value, 1)} [{signed_interval(gain, 1)}]"
            else:
                pair = f"{share(scores.base)} → {share(scores.policy)}"
                amount = f"{points(gain.value)} points [{span(gain)}]"
            lines.append(f"{SCORE_NAMES[figure]}: {pair}, {amount}{unclear}")
    if win := summary.win_rate:
        lines.append(f"arena against the base: {percent(win.value)} won [{percent_interval(win)}]")
    return [*lines, *last_lines(summary)]


REPORT = Report(
    method="balcaprl",
    sections=(
        opening,
        partial(
            results,
            note="b-CapScore is the harmonic mean of precision, recall and linguistic, per caption; linguistic is not "
            "gated here.",
        ),
        audited_rubrics,
        judge_errors,
        balanced_training,
        advantages,
        examples,
        method_notes,
        *RECORD,
    ),
    success_lines=success_lines,
    trainings={TRAINING: ""},
    stood_in="images, captioners, examiners and judges",
    footer="Intervals are 95 % bootstrap intervals, or Wilson's at 0 and 100 %. Method: BalCapRL, sections 2 and 3.",
)
