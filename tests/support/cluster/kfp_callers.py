"""The name of kfp's caller without the source of every frame.

At each setting of a task, kfp takes its caller's name from `inspect.stack()`, which looks for the module of every frame
among all that are imported: a hundred settings a pipeline, thousands of modules in a worker of the tests, seconds
for a compilation that takes a quarter of one. The frames' names alone are the same.
"""

import sys
from collections.abc import Iterator
from inspect import FrameInfo
from types import SimpleNamespace

import pytest


def stack() -> list[FrameInfo]:
    """The frames of `inspect.stack()`, without modules and lines of source."""
    frame, frames = sys._getframe(1), []
    while frame:
        frames.append(FrameInfo(frame, frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, None, None))
        frame = frame.f_back
    return frames


@pytest.fixture(scope="session", autouse=True)
def _quick_stack() -> Iterator[None]:
    """Only where a test module has imported kfp: with few modules it takes no time."""
    tasks = sys.modules.get("kfp.dsl.pipeline_task")
    with pytest.MonkeyPatch.context() as patch:
        if tasks:
            patch.setattr(tasks, "inspect", SimpleNamespace(stack=stack))
        yield
