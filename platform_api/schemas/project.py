"""Usage of a project, over HTTP."""

from pydantic import Field

from rubricworks.platform_api.schemas.bodies import Body


class SpenderBody(Body):
    """Cost of one person's or program's runs this month."""

    submitted_by: str = Field(description="Empty for runs that were not submitted here", examples=["ada@example.org"])
    runs: int = Field(examples=[3])
    dollars: float = Field(examples=[12.5])


class ProjectUse(Body):
    """Usage of a project's budget and quotas; null is unbounded."""

    project: str | None = Field(examples=["captions"])
    month: str = Field(description="Calendar month (UTC) in which the runs began", examples=["2026-11"])
    dollars: float = Field(examples=[12.5])
    dollars_a_month: float | None = Field(examples=[500.0])
    spenders: list[SpenderBody] = Field(description="Those of the month, the largest first")
    runs_going: int = Field(examples=[1])
    runs_at_once: int | None = Field(examples=[4])
    runs: int = Field(description="All runs, of any month", examples=[40])
    gigabytes: float = Field(examples=[112.4])
    most_gigabytes: float | None = Field(examples=[2000.0])
