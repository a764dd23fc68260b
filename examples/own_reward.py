"""Two rewards of your own in ten lines each: one that trains a better captioner, and a naive one that is gamed.

    cd examples
    rubricworks run quickstart --set policy.reward.function=own_reward:matching    # in a recipe's training
    # in your own TRL script: reward_funcs=[FunctionReward("own_reward:matching")], from rubricworks.adapters.functions

`responses` are the texts of a batch; `samples` say of each which image and prompt it answers; `columns` are the
dataset's columns, such as `rubric`, and TRL's `completion_ids`. Return None for a response that cannot be judged.

`matching` asks no judge: it compares the colours, sizes and shapes that a caption names with those that its sample's
rubric asks for, each as often as it is asked for (F1).

`colourful` counts words that could be visible. The quickstart's student learns it, and games it: with seed 1 the reward
rises from .31 to .60 while captions fill up with words that are not in the picture (simulated world: oracle F1
.80 -> .04, no comparison with the base won). The hacking alarm goes off at step 51, and the gate refuses the model.
"""

import json
import re
from collections import Counter

THINGS = re.compile(r"red|green|blue|yellow|purple|black|big|small|circle|square|triangle|star")


def matching(responses, samples, rubric, **columns):
    rewards = []
    for text, criteria in zip(responses, rubric, strict=True):
        titles = " ".join(one["criterion"] for one in json.loads(criteria)["criteria"])
        asked, said = (Counter(THINGS.findall(words.lower())) for words in (titles, text))
        shared = (asked & said).total()
        rewards.append(2 * shared / (asked.total() + said.total()) if asked else None)
    return rewards


VISIBLE = {"red", "blue", "green", "yellow", "circle", "square", "triangle", "star", "above", "below", "left", "right"}


def colourful(responses, samples, **columns):
    rewards = []
    for text in responses:
        words = text.lower().replace(".", " ").replace(",", " ").split()
        sentences = [part.strip() for part in text.split(".") if part.strip()]
        repeats = len(sentences) - len(set(sentences))
        rewards.append(len(VISIBLE & set(words)) / len(VISIBLE) - 0.2 * repeats - 0.005 * len(words))
    return rewards
