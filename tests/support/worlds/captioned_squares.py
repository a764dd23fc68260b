"""All that the evaluation of captions reads, small enough to be made in seconds, and judges of coloured squares."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from audited import write_stage_table
from coloured_squares import PROMPT, SMALL, squares
from scripted_server import Said, say
from training_configs import sft_config

from rubricworks.evaluation.scorers.caption_prompts import CANNOT_ANSWER, Exam, ExamQuestion
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import close_job, open_job

HELD_OUT = 6
COLOUR = ExamQuestion(question="Which colour has the square?", options=("red", "green", "blue"), answer="A")
WHERE = ExamQuestion(question="Is it at the top?", options=("Yes", "No"), answer="A")
EXAM = Exam(questions=(COLOUR, WHERE, COLOUR, WHERE))


def make_inputs(folder: Path) -> dict[str, str]:
    """Six held-out squares with references; a base that knows nothing, and a policy that has learnt to see them."""

    from rubricworks.training.sft import train_sft
    from rubricworks.training.tiny.student import build_student

    texts = [text for _, prompt, caption in squares() for text in (prompt, caption)]
    untrained = build_student(
        texts, folder / "untrained", config=SMALL, images=[square[0] for square in squares()], seed=1
    )
    configs = {"model": sft_config(steps=1, learning_rate=1e-6, save_every=1000), "policy": sft_config(steps=120)}
    models = {}
    for name, config in configs.items():
        job = open_job("warm_up", StageConfig(), folder / name, {})
        options = {"batch_size": 12, "learning_rate": 1e-2, "save_every": 1000}
        train_sft(untrained, squares(), job.out, config if name == "model" else config.model_copy(update=options))
        close_job(job, 0.0)
        models[name] = str(job.out)
    exams = [
        {
            **{"sample_id": f"s{number}", "questions": EXAM.model_dump_json(), "writer": "w", "prompt_version": "1"},
            **{"prompt_tokens": 0, "completion_tokens": 0, "cost": 0.0},
        }
        for number in range(HELD_OUT - 1)  # the last one's failed
    ]
    return models | {
        "samples": squares_table(folder),
        "exams": str(write_stage_table(folder / "exams", "exams", exams)),
    }


def squares_table(folder: Path) -> str:
    """The squares as samples, the first six held out."""
    rows = [
        {
            "sample_id": f"s{number}",
            "split": "held_out" if number < HELD_OUT else "train",
            "image": image,
            "image_digest": f"d{number}",
            "prompt": PROMPT,
            "references": [caption],
            "source": "squares",
        }
        for number, (image, _, caption) in enumerate(squares())
    ]
    return str(write_stage_table(folder / "samples", "samples", rows))


def text_of(body: dict[str, Any]) -> str:
    content = body["messages"][1]["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def within(body: dict[str, Any], tag: str) -> str:
    return text_of(body).split(f"<{tag}>\n")[1].split(f"\n</{tag}>")[0]


def words_of(caption: str) -> list[str]:
    return [word for word in dict.fromkeys(caption.split()) if len(word) > 2]


def assertions(body: dict[str, Any]) -> dict[str, Any]:
    """A word is an assertion; it is true if it is in the reference."""
    caption, reference = within(body, "caption"), within(body, "reference")
    caption_words, truth = words_of(caption), words_of(reference)
    rating = 10 if caption.endswith(".") else 4
    return {
        "synthetic_features": {
            "atomic_assertions": [{"text": word, "is_verified": word in truth} for word in caption_words],
            **dict.fromkeys(("clarity_score", "fluency_score", "coherency_score"), rating),
            "linguistic_scores_explanation": "e",
        },
        "gt_features": {"atomic_assertions": [{"text": word, "is_covered": word in caption_words} for word in truth]},
    }


def facts(body: dict[str, Any]) -> dict[str, Any]:
    text = text_of(body)
    if "<caption>" in text:
        return {"facts": [{"fact": word, "relevant": True} for word in words_of(within(body, "caption"))]}
    stated = [line.split(". ")[1] for line in within(body, "facts").splitlines()]
    numbers = range(1, len(stated) + 1)
    if "<reference_facts>" in text:
        lines = [line.split(". ")[1] for line in within(body, "reference_facts").splitlines()]
        places = [lines.index(fact) + 1 if fact in lines else None for fact in stated]
        return {"matches": [{"fact": n, "reference": place} for n, place in zip(numbers, places, strict=True)]}
    return {"checks": [{"fact": n, "is_true": fact != "blue"} for n, fact in zip(numbers, stated, strict=True)]}


def choice_of(body: dict[str, Any]) -> str:
    """The colour that the caption names, or that it names none; of yes or no, yes."""
    options = dict(reversed(line.split(". ", 1)) for line in within(body, "options").splitlines())
    matches = [word for word in within(body, "caption").split() if word in options]
    return options["Yes" if "Yes" in options else matches[0] if matches else CANNOT_ANSWER]


def arena(body: dict[str, Any]) -> dict[str, str]:
    """The caption that ends like a sentence."""
    a, b = (within(body, f"caption_{name}").endswith(".") for name in "ab")
    return {"reason": "r", "judgment": "Tie" if a == b else "A" if a else "B"}


def judges(_: int, body: dict[str, Any]) -> Said:
    answer: dict[str, Callable[[dict[str, Any]], Any]] = {"j": assertions, "f": facts, "e": choice_of, "a": arena}
    reply = answer[body["model"]](body)
    return say(reply if isinstance(reply, str) else json.dumps(reply))
