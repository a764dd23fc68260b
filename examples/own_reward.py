"""Two rewards of your own in ten lines each: one that trains a better captioner, and a naive one that is gamed.

    cd examples
    rubricworks run quickstart --set 'policy.reward={type: function, function: "own_reward:matching"}'
    # in your own TRL script: reward_funcs=[FunctionReward("own_reward:matching")], from rubricworks.adapters.functions

`responses` are the texts of a batch; `samples` say of each which image and prompt it answers; `columns` are the
dataset's columns, such as `rubric`, and TRL's `completion_ids`. Return None for a response that cannot be judged.

`matching` asks no judge: what a caption says at each place (colour, size, shape) is compared with what its sample's
rubric asks for there (F1). Seed 1: oracle F1 .80 -> .97, 81 % [77, 85] of the comparisons with the base won. Without
the places it was gamed: .80 -> .71, and most comparisons lost.

`colourful` counts words that could be visible. The student learns it, and games it: the reward rises from .31 to .60
while captions fill up with words that are not in the picture (oracle F1 .80 -> .04, no comparison won). The hacking
alarm fires at step 31, and the gate refuses the model.

All figures are of the simulated scene world.
"""

import json
import re

PLACES = re.compile(r"top|bottom|left|right|middle|center")
THINGS = re.compile(r"red|green|blue|yellow|purple|black|big|small|circle|square|triangle|star")


def facts(sentence):
    place = " ".join(PLACES.findall(sentence))
    return {(place, thing) for thing in THINGS.findall(sentence)}


def matching(responses, samples, rubric, **columns):
    rewards = []
    for text, criteria in zip(responses, rubric, strict=True):
        asked = set().union(*(facts(criterion["criterion"].lower()) for criterion in json.loads(criteria)["criteria"]))
        said = set().union(*(facts(sentence) for sentence in text.lower().split(".")))
        rewards.append(2 * len(asked & said) / (len(asked) + len(said)) if asked else None)
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
