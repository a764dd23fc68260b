"""Training settings of a BalCapRL run, as its report describes them: rewards, weights, length control, judge."""

from typing import Any, Literal, NamedTuple

from rubricworks.methods.balcaprl.advantage_groups import REWARDS
from rubricworks.methods.balcaprl.stages.train_balcaprl import LengthControl, Weights

_TESTS = {
    "strict": "true of the image and pointable",
    "evidence": "true of the image and justified by what can be seen",
    "off": "true of the image, pointable or not",
}


class TrainingSettings(NamedTuple):
    """Fields of the recipe's policy section that the page describes."""

    method: Literal["rl", "sft"]
    reward: Literal["balanced", "questions", "rubrics"]
    objective: Literal["c-gdpo", "grpo"]
    weights: tuple[float, ...]
    control: Literal["gate", "linear", "none"]
    bounds: tuple[float, float]
    pointability: str
    judge: str
    verifier: str

    @property
    def gate(self) -> tuple[float, float] | None:
        return self.bounds if self.control == "gate" else None


def training_settings(recipe: dict[str, Any]) -> TrainingSettings:
    """Read the settings from a recipe, with defaults filled in."""
    policy = _section(recipe, "policy")
    weights, length = _section(policy, "weights"), _section(policy, "length")
    default = LengthControl()  # recipes leave defaults out
    return TrainingSettings(
        method=policy.get("method", "rl"),
        reward=policy.get("reward", "balanced"),
        objective=policy.get("objective", "c-gdpo"),
        weights=tuple(float(weights.get(name, getattr(Weights(), name))) for name in REWARDS),
        control=length.get("control", "gate"),
        bounds=(float(length.get("lower", default.lower)), float(length.get("upper", default.upper))),
        pointability=str(policy.get("pointability", "strict")),
        judge=str(_section(policy, "judge").get("model", "")),
        verifier=str(_section(policy, "verifier").get("model", "")),
    )


def training_sentences(recipe: dict[str, Any]) -> list[str]:
    """Describe the training in sentences; without a recipe, say that it is not known."""
    if "policy" not in recipe:
        return ["The run has no recipe, so what its policy was paid for is not known here."]
    settings = training_settings(recipe)
    if settings.method == "sft":
        return ["The policy was trained on the reference captions themselves (SFT), without any reward."]
    if settings.reward == "questions":
        return ["The reward is that of CapRL: how many questions a text model answers right from the caption alone."]
    if settings.reward == "rubrics":
        return [
            "The reward is that of RubiCap: how well a caption meets its image's rubric, which was written from what a "
            "committee of captioners agrees on."
        ]
    judge = settings.judge or "A judge"
    verification = f"; {settings.verifier}, which sees the image, verifies the claims" if settings.verifier else ""
    weights = ", ".join(f"{name} {weight:g}" for name, weight in zip(REWARDS, settings.weights, strict=True))
    lower, upper = settings.bounds
    length = {
        "gate": f"linguistic is 0 unless the caption has {lower:g} to {upper:g} times the tokens of its reference",
        "linear": f"the advantage falls linearly outside {lower:g} to {upper:g} times the tokens of the reference",
        "none": "nothing holds the length",
    }[settings.control]
    objective = {
        "c-gdpo": "Each reward is normalised in its group before they are added by weight (c-GDPO)",
        "grpo": "The rewards are added by weight and then normalised in the group (GRPO, the ablation)",
    }[settings.objective]
    return [
        f"{judge} lists what caption and reference claim and rates the caption's language{verification}.",
        f"Precision is the share of the caption's claims that are {_TESTS.get(settings.pointability, 'true')}; recall "
        "the share of the reference's claims that the caption covers; linguistic the mean of clarity, fluency and "
        f"coherency, brought to 0 to 1; {length}.",
        f"{objective}; weights: {weights}.",
    ]


def _section(settings: dict[str, Any], name: str) -> dict[str, Any]:
    section = settings.get(name)
    return section if isinstance(section, dict) else {}
