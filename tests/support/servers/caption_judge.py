"""A judge of captions of coloured squares, and a world of them for stages that train on captions.

It knows the squares by their pixels, lists every word of a caption as an assertion, and says which words hold.
"""

import base64
import json
from pathlib import Path
from typing import Any

from audited import write_stage_table
from coloured_squares import SMALL, squares
from scripted_server import Said, ScriptedServer, fail, say
from training_configs import policy_json, sft_config

from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import close_job, open_job
from rubricworks.runtime.launch import launch

GROUP = 4
SHAPE = {"epochs": None, "steps": 3, "prompts_per_step": 4, "group_size": GROUP, "max_new_tokens": 24}
SHAPE |= {"learning_rate": 1e-3, "save_every": 2}
LONG = "at top-left at top-left at top-left at top-left at top-left a red square ."
OUTAGE = "here"
"""A word over which the judge breaks down."""
TRUTH = {image: caption.split() for image, _, caption in squares()}


def judge(_: int, body: dict[str, Any]) -> Said:
    """True are the words of the picture's own caption; clarity falls with repeated words."""
    image, text = shown_in(body)
    caption, reference = (text.split(f"<{tag}>\n")[1].split(f"\n</{tag}>")[0] for tag in ("caption", "reference"))
    if OUTAGE in caption.split():
        return fail(400, "no")
    return say(json.dumps(judgment(caption, reference, TRUTH[image])))


def judgment(caption: str, reference: str, truth: list[str]) -> dict[str, Any]:
    caption_words, expected = words(caption), words(reference)
    clarity = max(1, 10 - len(caption_words) + len(set(caption_words)))
    return {
        "synthetic_features": {
            "atomic_assertions": [{"text": word, "is_verified": word in truth} for word in caption_words],
            "clarity_score": clarity,
            "fluency_score": min(10, 1 + len(caption_words)),
            "coherency_score": 4,
            "linguistic_scores_explanation": "by rule",
        },
        "gt_features": {
            "atomic_assertions": [{"text": word, "is_covered": word in caption_words} for word in expected]
        },
    }


def rewards_by_hand(caption: str, reference: str, truth: list[str]) -> tuple[float, float, float] | None:
    """Precision, recall and linguistic before any gate; None where the judge breaks down."""
    if OUTAGE in caption.split():
        return None
    caption_words, expected = words(caption), words(reference)
    if not caption_words:
        return 0.0, 0.0, 0.0
    ratings = (max(1, 10 - len(caption_words) + len(set(caption_words))), min(10, 1 + len(caption_words)), 4)
    return (
        sum(word in truth for word in caption_words) / len(caption_words),
        sum(word in caption_words for word in expected) / len(expected),
        sum(rating - 1 for rating in ratings) / 27,
    )


def words(text: str) -> list[str]:
    return [word for word in text.split() if any(sign.isalnum() for sign in word)]


def shown_in(body: dict[str, Any]) -> tuple[bytes, str]:
    """The image and the text of a request."""
    picture, text = body["messages"][1]["content"]
    return base64.b64decode(picture["image_url"]["url"].partition("base64,")[2]), text["text"]


def make_inputs(folder: Path) -> dict[str, str]:
    """Twelve pictures, two of them held out and one without a caption, and a student that captions them so and so."""
    rows = [
        {
            "sample_id": f"s{number}",
            "split": "held_out" if number in (3, 7) else "train",
            "image": image,
            "image_digest": str(number),
            "prompt": prompt,
            "references": [] if number == 5 else [caption, "another one"],
            "source": "squares",
        }
        for number, (image, prompt, caption) in enumerate(squares())
    ]
    return {
        "samples": str(write_stage_table(folder / "samples", "samples", rows)),
        "model": str(_student(folder / "made")),
    }


def train(
    run: Path, inputs: dict[str, str], server: ScriptedServer, *, reward: dict[str, Any] | None = None, **options: Any
) -> Path:
    """Run the stage for a few steps; its folder.

    Args:
        reward: settings of the reward, beside its judge; those of caption scores by default.
    """
    endpoint = {"url": server.url, "model": "looker"}
    reward = {"type": "caption_scores", "judge": endpoint} | (reward or {})
    config = policy_json(reward, **{"advantages": "c-gdpo", **SHAPE, **options})
    return Path(launch("train_balcaprl", config, str(run), inputs))


def _student(run: Path) -> Path:

    from rubricworks.training.sft import train_sft
    from rubricworks.training.tiny.student import build_student

    taught = [
        (image, prompt, text)
        for image, prompt, caption in squares()
        for text in (caption, caption.replace("red", "blue"), f"{OUTAGE} {caption}", "a square .", LONG)
    ]
    untrained = build_student(
        [text for _, prompt, caption in taught for text in (prompt, caption, "another one")],
        run / "untrained",
        config=SMALL,
        images=[image for image, _, _ in squares()],
        seed=1,
    )
    job = open_job("warm_up", StageConfig(), run, {})
    train_sft(untrained, taught, job.out, sft_config(steps=60, batch_size=20, learning_rate=1e-2, save_every=1000))
    close_job(job, 0.0)
    return job.out
