"""Components that promote a model and report a run."""

from rubricworks.components.declaration import component

promote = component(
    "promote",
    "Register the policy and make it champion if it passes the gate.",
    "URI of the promotion's record.",
    audit="URI of the judge's audit, if the gate has a rule on it.",
)
challenge = component(
    "challenge",
    "Register a retrained policy as the challenger, and make it champion if it passes and nobody has to agree.",
    "URI of the challenge's record.",
    scores="URI of the scores of champion and challenger.",
    policy="URI of the retrained policy.",
)
report = component(
    "report",
    "Write the page that shows what ran and what came of it.",
    "URI of the report.",
    promotion="URI of the promotion's record; the rest is read from the run's folder.",
)
rlr3_report = component(
    "rlr3_report",
    "Write the page and the summary of the run.",
    "URI of the folder that holds the summary.",
)
balcaprl_report = component(
    "balcaprl_report",
    "Write the page and the summary of the run.",
    "URI of the folder that holds the summary.",
)
rubricrl_report = component(
    "rubricrl_report",
    "Write the page and the summary of the run.",
    "URI of the report's folder.",
)
recaption_pretrain_report = component(
    "recaption_pretrain_report",
    "Write the page and the summary of the run.",
    "URI of the report's folder.",
)
evaluation_report = component(
    "evaluation_report",
    "Write the leaderboard of the run.",
    "URI of the report's folder.",
)
