"""The scripted cheap judge: it errs in 15 % of its verdicts, and knows of which it is unsure.

Each verdict has a confidence between one half and one, by a hash of the question, and is wrong with a probability of
one minus it: the judge is calibrated, which real ones are only in part. Its log-probabilities tell the confidence.
"""

import hashlib
import math
import re

from rubricworks.world.models.judge import NOTHING_TO_JUDGE, judge_criterion, read_task, write_verdicts

ERROR_RATE = 0.15
_SKEW = 0.5 / ERROR_RATE - 1
"""With u uniform, u^k / 2 has the mean 1 / (2 (k + 1))."""
_SCORE = re.compile(r'(?<="score": )[01]')


def cheap_judge_reply(prompt: str) -> str:
    """The judge's JSON answer to a prompt; prose without criteria."""
    task = read_task(prompt)
    if task is None:
        return NOTHING_TO_JUDGE
    rows = []
    for number, title, rule in task.criteria:
        score, reasoning = judge_criterion(title, rule, task.caption, error_rate=0)
        doubt, draw = _doubt(title, rule, task.caption), _uniform("draw", title, rule, task.caption)
        rows.append((number, int(not score) if draw < doubt else score, reasoning.partition(";")[0]))
    return write_verdicts(rows)


def cheap_judge_logprobs(prompt: str, text: str) -> list[dict[str, object]]:
    """Log-probabilities of the answer's tokens in OpenAI's shape: each score is a token, and what lies between."""
    task = read_task(prompt)
    doubts = iter([_doubt(title, rule, task.caption) for _, title, rule in task.criteria] if task else [])
    entries, start = [], 0
    for match in _SCORE.finditer(text):
        entries.append(_entry(text[start : match.start()], {text[start : match.start()]: 1.0}))
        doubt, score = next(doubts), match[0]
        other = "0" if score == "1" else "1"
        entries.append(_entry(score, {score: 1 - doubt, other: doubt}))
        start = match.end()
    return [*entries, _entry(text[start:], {text[start:]: 1.0})]


def _doubt(*question: str) -> float:
    """Probability that the verdict is wrong, at most one half."""
    return float(max(0.5 * _uniform("doubt", *question) ** _SKEW, 1e-6))


def _uniform(*question: str) -> float:
    digest = hashlib.blake2b("\x1f".join(question).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def _entry(token: str, alternatives: dict[str, float]) -> dict[str, object]:
    def one(text: str) -> dict[str, object]:
        return {"token": text, "logprob": math.log(alternatives[text]), "bytes": list(text.encode())}

    return {**one(token), "top_logprobs": [one(text) for text in alternatives]}
