"""A reward of your own in ten lines, and a naive one: it counts the colours, shapes and places that a caption names.

    cd examples
    rubricworks run quickstart --set policy.reward.function=own_reward:colourful    # in a recipe's training
    # in your own TRL script: reward_funcs=[FunctionReward("own_reward:colourful")], from rubricworks.adapters.functions

`responses` are the texts of a batch; `samples` say of each which image and prompt it answers; `columns` are the
dataset's columns, such as `rubric`, and TRL's `completion_ids`. Return None for a response that cannot be judged.

The quickstart's student learns it, and games it: with seed 1 the reward rises from .31 to .60 while captions fill up
with words that are not in the picture (simulated world: oracle F1 .80 -> .04, no comparison with the base won). The
hacking alarm goes off at step 51, and the gate refuses the model.
"""

VISIBLE = {"red", "blue", "green", "yellow", "circle", "square", "triangle", "star", "above", "below", "left", "right"}


def colourful(responses, samples, **columns):
    rewards = []
    for text in responses:
        words = text.lower().replace(".", " ").replace(",", " ").split()
        sentences = [part.strip() for part in text.split(".") if part.strip()]
        repeats = len(sentences) - len(set(sentences))
        rewards.append(len(VISIBLE & set(words)) / len(VISIBLE) - 0.2 * repeats - 0.005 * len(words))
    return rewards
