"""Submitted runs, and runs on Kubeflow, over HTTP."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from rubricworks.platform_api.limits import MAX_CHANGES, MAX_RECIPE
from rubricworks.platform_api.schemas.bodies import Body, Page, RequestBody

Place = Literal["here", "kubeflow"]
Override = Annotated[str, Field(max_length=10_000)]
"""A changed field; a limit also keeps out what is no Unicode, which no answer could repeat."""


class SubmissionRequest(RequestBody):
    """A recipe to run."""

    recipe: str = Field(
        min_length=1, max_length=MAX_RECIPE, description="The recipe as YAML", examples=["name: quickstart\n"]
    )
    run: str | None = Field(
        default=None, max_length=100, description="Name of the run; by default recipe and time", examples=["nightly-7"]
    )
    overrides: list[Override] = Field(default=[], max_length=MAX_CHANGES, examples=[["policy.algorithm.steps=50"]])
    arm: str | None = Field(default=None, max_length=100, description="One of the recipe's arms")
    place: Place | None = Field(
        default=None, description="By default here, if the service listens on loopback alone", examples=["here"]
    )


class SubmissionBody(Body):
    """A submitted run, from its start to the end of its process."""

    run: str = Field(examples=["nightly-7"])
    place: Place
    state: Literal["starting", "going", "stopping", "ended"] = Field(
        description="Of the process here; a run on Kubeflow is `going` until it is stopped"
    )
    overrides: list[str] = Field(
        description="Fields changed beside the recipe", examples=[["policy.algorithm.steps=50"]]
    )
    arm: str | None
    submitted_by: str = Field(examples=["ada"])
    submitted_at: datetime
    ended_at: datetime | None
    message: str = Field(description="Last line of a run that failed here", examples=[""])
    page: str = Field(description="Address of the run's page on Kubeflow; empty for one here", examples=[""])


RemoteState = Literal["going", "done", "failed", "stopped"]


class RemoteRunBody(Body):
    """A run on Kubeflow."""

    id: str = Field(examples=["5f4dcc3b-5aa7-65d6-1d83-27deb882cf99"])
    name: str = Field(examples=["nightly-7"])
    state: str = Field(description="In Kubeflow's words", examples=["RUNNING"])
    pipeline: str = Field(examples=["rubicap"])
    created: datetime | None
    ended: datetime | None
    error: str = Field(examples=[""])
    page: str = Field(examples=["https://kubeflow.example.com/#/runs/details/5f4dcc3b"])


class RemoteRunPage(Page[RemoteRunBody]):
    """A page of runs on Kubeflow, the newest first; those seen last, and the problem, while it does not answer."""

    problem: str = Field(examples=[""])


class RemoteStageBody(Body):
    """A task of a run on Kubeflow."""

    stage: str = Field(examples=["train_policy"])
    state: str = Field(description="In Kubeflow's words", examples=["FAILED"])
    started: datetime | None
    ended: datetime | None
    error: str = Field(description="Reason of a failure, as the stage or Kubeflow tells it", examples=["out of memory"])
    log: str = Field(
        description="Address of its pod's log in Kubeflow's pages; empty if Kubeflow names no pod", examples=[""]
    )


class RemoteRunDetailBody(RemoteRunBody):
    """A run on Kubeflow with its stages."""

    uri: str = Field(description="Folder of the run", examples=["s3://rubricworks/runs/nightly-7"])
    schedule: str = Field(description="Kubeflow's id of the schedule that started it", examples=[""])
    stages: list[RemoteStageBody]
    run: str = Field(
        description="Name of the run under /runs; empty if its folder is not in this storage, or not yet",
        examples=["nightly-7"],
    )
    links: dict[str, str] = Field(
        description="Program → address of the run's page there",
        examples=[{"MLflow": "https://mlflow.example.com/#/runs/7"}],
    )
    problem: str = Field(description="What is wrong with Kubeflow, while it does not answer", examples=[""])


class StopBody(Body):
    """A run that is being stopped."""

    run: str = Field(examples=["nightly-7"])
    place: Place
