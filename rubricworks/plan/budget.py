"""A plan held against the caps of a run.

Calls are counted, but their tokens are estimated, and what the cache answers costs nothing; so a plan above a cap is a
warning, never a refusal. The cap itself is kept call by call while the run goes on (`llm.spending`).
"""

from collections.abc import Sequence

from rubricworks.llm import Budget
from rubricworks.plan.calls import Calls


def over_budget(budget: Budget, calls: Sequence[Calls]) -> str:
    """What the plan comes to beside the caps that it exceeds; empty where it exceeds none."""
    tokens = sum(call.count * (call.tokens_in + call.tokens_out) for call in calls)
    dollars = sum(call.dollars for call in calls)
    over, more = [], []
    if budget.dollars is not None and dollars > budget.dollars:
        over.append(f"${dollars:,.2f}, and budget.dollars is {budget.dollars:,.2f}")
        more.append("budget.dollars")
    if budget.tokens is not None and tokens > budget.tokens:
        over.append(f"{tokens:,} tokens, and budget.tokens is {budget.tokens:,}")
        more.append("budget.tokens")
    if not over:
        return ""
    return (
        f"the plan comes to about {'; to '.join(over)}: the run would stop there and keep what it made. "
        f"Raise {' and '.join(more)}, or do less; --dry-run shows what each stage takes"
    )
