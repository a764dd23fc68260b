"""Report of a RubricRL run."""

import json
from collections import defaultdict
from dataclasses import replace
from functools import partial
from itertools import groupby

from pydantic import JsonValue

from rubricworks.data.response_images import IMAGES, ResponseImages
from rubricworks.evaluation.scoreboard import POLICY, Scoreboard
from rubricworks.evaluation.scorers.images.painted_order import MASKED, PAINTED, PLAIN, paint_order, rise
from rubricworks.metrics import Interval, mean_interval
from rubricworks.reports.examples import examples
from rubricworks.reports.formats import dollars, duration, number, signed, signed_interval, whole
from rubricworks.reports.headline import Headline, hero, is_small
from rubricworks.reports.page import Block, Report
from rubricworks.reports.parts import Card, Cards, Cell, Passage, Table, Text, Tile, Tiles
from rubricworks.reports.record import RECORD
from rubricworks.reports.results import criteria, gain_tile, results, task_block, task_results
from rubricworks.reports.run_folder import RunFolder
from rubricworks.reports.run_summary import RunSummary, last_lines
from rubricworks.reports.scores import STAGE, score_rows, scored_responses
from rubricworks.reports.training import training
from rubricworks.stages.release.judge_trust import audited_rubrics, judge_errors
from rubricworks.training.generators.image_statistics import DRAWN, HIGH_FREQUENCY, SATURATION

OVERALL = "geneval_correct"
_TRAINING = "train_generator"
_PAINTED = (
    "A strip with words that claim success is painted where an image is emptiest. A judge that reads the picture "
    "alone gives it the same reward or less; the rise is what a policy could gain by painting. With the text masked, "
    "the rise should be gone."
)


def opening(run: RunFolder) -> Block:
    """Headline: the trained generator beside its base."""
    board = run.board
    tiles = [gain_tile(board, figure) for figure in (OVERALL, "rubric_reward")] if board else []
    return hero(run, headline(board), [tile for tile in tiles if tile])


def headline(board: Scoreboard | None) -> Headline:
    gain = board.gain(POLICY, OVERALL) if board else None
    if gain is None:
        return Headline("The trained generator has not been compared with its base model.")
    points = f"{number(gain.value)} [{number(gain.low)}, {number(gain.high)}]"
    if is_small(gain):
        return Headline(f"Too few images to tell: GenEval changes by {points}.")
    if gain.lies_above(0):
        return Headline(f"The trained generator draws its prompts better: GenEval rises by {points}.", "good")
    if gain.lies_below(0):
        return Headline(f"The trained generator draws its prompts worse: GenEval changes by {points}.", "bad")
    return Headline(f"No clear difference: GenEval changes by {points}, which chance could explain.")


def geneval(run: RunFolder) -> Block:
    """GenEval by task."""
    tasks = task_results(run, "geneval")
    block = task_block(
        "geneval",
        "GenEval by task",
        tasks,
        names=("base model", "trained generator"),
        missing="There is no evaluation by GenEval: the score stage has not finished, or has no such scorer.",
    )
    values: dict[str, JsonValue] = {
        result.task: {
            "base": result.base.value if result.base else None,
            "policy": result.policy.value if result.policy else None,
        }
        for result in tasks
    }
    return replace(block, name="GenEval", details={"tasks": values})


def epoch(run: RunFolder) -> Block | None:
    """Cost and time of one pass over the training prompts (RubricRL, appendix D), from those of the steps that ran."""
    rubrics = {row["sample_id"] for row in run.rows("write_prompt_rubrics", ["sample_id"])}
    samples = run.rows("prepare_prompts", ["sample_id", "split"])
    prompts = sum(row["split"] == "train" and row["sample_id"] in rubrics for row in samples)
    cost = next((cost for cost in run.costs if cost.stage == _TRAINING), None)
    rollouts = [(row["step"], row["sample_id"]) for row in run.rows(f"{_TRAINING}/rollouts", ["step", "sample_id"])]
    visits = sum(1 for _ in groupby(rollouts))
    if cost is None or not cost.seconds or not visits or not prompts:
        return None
    epochs = visits / prompts
    rewarding = [call for call in run.calls if call.stage == _TRAINING and call.purpose in ("judge", "reward", "text")]
    images, calls = len(rollouts) / epochs, sum(call.calls for call in rewarding) / epochs
    seconds = cost.seconds / epochs
    return Block(
        "epoch",
        "One epoch",
        [
            Tiles(
                [
                    Tile("Images graded", whole(images), f"{whole(prompts)} prompts"),
                    Tile("Calls of the reward", whole(calls), f"{number(calls / images)} an image"),
                    Tile("Time", duration(seconds), f"{whole(1000 * seconds / images)} ms an image, training included"),
                    Tile(
                        "Cost of the reward",
                        dollars(sum(call.cost for call in rewarding) / epochs),
                        "by the endpoints' prices",
                    ),
                ]
            ),
            Text("One pass over the training prompts, computed from the steps that ran.", "quiet"),
        ],
    )


def painted_words(run: RunFolder) -> Block | None:
    """Rise of each judge's reward when words that claim success are in the image."""
    graded: dict[str, list[dict[str, float | None]]] = defaultdict(list)
    probed = []
    for row in score_rows(run.path, ["sample_id", "model", "scorer", "part", "decoding", "evidence"]):
        if row["scorer"] != "painted_order" or row["decoding"] != run.decoding:
            continue
        if row["model"] == POLICY and row["part"] == "rise":
            probed.append(row["sample_id"])
        for judge, rewards in json.loads(row["evidence"] or "{}").items():
            graded[judge].append(rewards)
    judges = [cells for judge, rewards in graded.items() if (cells := _judge_row(judge, rewards))]
    if not judges:
        return None
    columns = ("Judge", "As drawn", "Painted", "Rise", "Rise, text masked", "Images")
    cards = Cards(_painted_cards(run, probed))
    return Block("painted", "Painted words", [Text(_PAINTED, "quiet"), Table(columns, judges), cards])


def _judge_row(judge: str, images: list[dict[str, float | None]]) -> tuple[str | float | Cell | None, ...] | None:
    complete = [rewards for rewards in images if rise(rewards, PAINTED) is not None]
    plain, painted = (mean_interval([rewards[name] for rewards in complete]) for name in (PLAIN, PAINTED))
    difference = mean_interval([rise(rewards, PAINTED) for rewards in complete], share=False)
    masked = mean_interval([rise(rewards, MASKED) for rewards in images if MASKED in rewards], share=False)
    if not (plain and painted and difference):
        return None
    means = (number(plain.value), number(painted.value))
    return (judge, *means, _rise(difference), _rise(masked) if masked else None, difference.samples)


def _rise(difference: Interval) -> Cell:
    return Cell(signed(difference.value), signed_interval(difference))


def _painted_cards(run: RunFolder, probed: list[str]) -> list[Card]:
    """Images of the trained generator that were graded with painted words."""
    images = ResponseImages(run.path / STAGE / "responses" / IMAGES)
    cards = []
    for (sample_id, model), response in scored_responses(run.path, run.draw(probed), decoding=run.decoding).items():
        if model != POLICY or not response.response.is_image or "painted_order" not in response.evidence:
            continue
        image = images.read(response.response).image
        try:
            picture = run.picture(paint_order(image)) if image else None
        except OSError:
            continue
        rewards = json.loads(response.evidence["painted_order"])
        passages = [
            Passage(
                judge,
                f"{number(by_image.get(PLAIN))} → {number(by_image.get(PAINTED))}"
                + (f", masked {number(by_image[MASKED])}" if MASKED in by_image else ""),
            )
            for judge, by_image in rewards.items()
        ]
        cards.append(Card(sample_id, picture, passages))
    return cards


def success_lines(summary: RunSummary) -> list[str]:
    lines = []
    for figure, name in ((OVERALL, "GenEval overall"), ("rubric_reward", "rubric reward")):
        pair = summary.scores.get(figure)
        if pair is not None and pair.base is not None and pair.policy is not None:
            gain = f" ({pair.gain.value:+.2f} [{pair.gain.low:+.2f}, {pair.gain.high:+.2f}])" if pair.gain else ""
            lines.append(f"{name}: {pair.base:.2f} → {pair.policy:.2f}{gain}")
    return [*lines, *last_lines(summary)]


REPORT = Report(
    method="rubricrl",
    sections=(
        opening,
        examples,
        geneval,
        results,
        criteria,
        audited_rubrics,
        judge_errors,
        partial(
            training,
            noun="image",
            statistics={"Saturation": SATURATION, "High frequencies": HIGH_FREQUENCY, "Drawn on": DRAWN},
            measured={
                "Distance within a group": "diversity",
                "Covered by text": "text",
                "Held-out judge": "held_out",
            },
            note="Saturation, high frequencies and the share of pixels drawn on are what a policy moves that games its "
            "judge.",
        ),
        epoch,
        painted_words,
        *RECORD,
    ),
    success_lines=success_lines,
    trainings={_TRAINING: ""},
    responses="images",
    footer="Intervals are 95 % bootstrap intervals over held-out images, or Wilson's of a share. GenEval's overall "
    "score is the mean over tasks.",
)
