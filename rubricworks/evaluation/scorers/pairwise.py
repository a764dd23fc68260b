"""Win rates as CapArena counts them: a judge sees two anonymous captions and the image; a tie is half a win.

The paper assigns the positions at random; `both` asks twice with the captions swapped and averages, which cancels a
judge's liking for one position at twice the price.
"""

import asyncio
import hashlib
from typing import Literal, NamedTuple

from rubricworks.evaluation.scorers.pairwise_prompts import PairwiseJudgment, pairwise_messages
from rubricworks.llm import ChatClient

Order = Literal["random", "both"]
_WIN_OF_A = {"A": 1.0, "B": 0.0, "Tie": 0.5}


class Comparison(NamedTuple):
    """How a caption did against another one."""

    win: float
    """1 won, 0 lost, 0.5 a tie; with both orders also 0.25 and 0.75."""
    judgments: tuple[PairwiseJudgment, ...]


async def compare(
    client: ChatClient, image: bytes, caption: str, against: str, *, order: Order, seed: int
) -> Comparison:
    """Ask the judge whether `caption` beats `against`.

    Raises:
        ChatError: the judge failed; there is no comparison then, not a tie.
    """
    if order == "both":
        first, second = await asyncio.gather(
            _ask(client, image, caption, against), _ask(client, image, against, caption)
        )
        return Comparison((_WIN_OF_A[first.judgment] + 1 - _WIN_OF_A[second.judgment]) / 2, (first, second))
    if _stands_first(seed, image, caption, against):
        judgment = await _ask(client, image, caption, against)
        return Comparison(_WIN_OF_A[judgment.judgment], (judgment,))
    judgment = await _ask(client, image, against, caption)
    return Comparison(1 - _WIN_OF_A[judgment.judgment], (judgment,))


async def _ask(client: ChatClient, image: bytes, caption_a: str, caption_b: str) -> PairwiseJudgment:
    reply = await client.chat(pairwise_messages(image, caption_a, caption_b), response=PairwiseJudgment)
    return reply.value


def _stands_first(seed: int, image: bytes, caption: str, against: str) -> bool:
    """A coin that falls the same way whenever the same comparison is made."""
    text = f"{seed}\x00{caption}\x00{against}\x00".encode() + image
    return hashlib.sha256(text).digest()[0] % 2 == 0
