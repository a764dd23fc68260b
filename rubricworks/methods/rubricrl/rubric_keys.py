"""Rubric keys: the aspects of an image that criteria may be about, as an editable pool (RubricRL, section 3.2).

A recipe adds keys of its own, leaves keys out, requires or weighs them.
"""

from pydantic import BaseModel, ConfigDict, Field, model_validator

KEYS: dict[str, str] = {
    "ocr_alignment": "text that the prompt asks for is in the image, spelled exactly",
    "object_presence": "each object, person or animal that the prompt names is in the image",
    "object_count": "the number of each named object is the one that the prompt states or implies",
    "attribute_accuracy": "colour, material, size, shape or state of a named object, on that object and no other",
    "spatial_relation": "where the named objects are, in relation to each other or in the frame",
    "action_interaction": "what the named subjects do, and to whom or what",
    "scene_coherence": "setting, time and light belong together, and nothing contradicts the prompt",
    "style_consistency": "the medium or the style that the prompt asks for, in the whole image",
    "aesthetics": "composition, colour and light please the eye",
    "realism": "anatomy, perspective and physics are plausible for the style, without artefacts",
}
"""Key → what it covers."""
QUALITY_KEYS = frozenset({"scene_coherence", "style_consistency", "aesthetics", "realism"})
"""Keys whose criteria need not rest on words of the prompt."""


class KeyControls(BaseModel):
    """A user's changes to the pool."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    add: dict[str, str] = {}
    """Further keys: name → what it covers. They count as quality: their criteria need no words of the prompt."""
    require: tuple[str, ...] = ()
    """Keys that every rubric must hold, as far as candidates of them exist."""
    forbid: tuple[str, ...] = ()
    """Keys that no criterion may have."""
    weights: dict[str, float] = Field(default={})
    """Key → weight of its criteria, above 0; 1 by default, as in the paper."""

    @model_validator(mode="after")
    def _names_known_keys(self) -> "KeyControls":
        pool = {**KEYS, **self.add}
        for field in ("require", "forbid", "weights"):
            if unknown := [key for key in getattr(self, field) if key not in pool]:
                raise ValueError(f"{field}: no key {unknown[0]!r}; there are {', '.join(pool)}; add: defines others")
        if both := sorted(set(self.require) & set(self.forbid)):
            raise ValueError(f"{both[0]!r} is required and forbidden; choose one")
        if wrong := [key for key, weight in self.weights.items() if not weight > 0]:
            raise ValueError(f"weights: {wrong[0]!r} has weight {self.weights[wrong[0]]}; it is above 0")
        if not self.pool():
            raise ValueError("forbid: no key is left to write criteria about")
        return self

    def pool(self) -> dict[str, str]:
        """Keys that criteria may have."""
        return {key: covers for key, covers in {**KEYS, **self.add}.items() if key not in self.forbid}

    def is_quality(self, key: str) -> bool:
        return key in QUALITY_KEYS or key in self.add
