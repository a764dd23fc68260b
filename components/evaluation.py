"""Components that measure models and judges."""

from rubricworks.components.declaration import component

score = component(
    "score",
    "Score the responses of the base model and of the trained ones to the held-out samples.",
    "URI of the scores table.",
    samples="URI of the samples table; only its held-out rows are used.",
    model="URI of the model before training, the base, if there is one.",
    policy="URI of the trained policy, if there is one.",
    rubrics="URI of the rubrics table, if a scorer needs rubrics.",
    exams="URI of the exams table, if a scorer needs exams.",
)
audit = component(
    "audit",
    "Audit a judge: abnormal responses made from the test data, and what it credits to them in each setting.",
    "URI of the audit table; `audit.json` beside it holds the figures.",
    samples="URI of the samples table, for the setting that shows images.",
)
fetch_champion = component(
    "fetch_champion",
    "Fetch the champion's weights from the model registry.",
    "URI of the champion.",
)
