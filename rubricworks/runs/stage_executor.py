"""Kubeflow's executor without its log lines, whose content is in the run's folder `kfp`."""

import logging
import runpy
import sys

EXECUTOR = "kfp.dsl.executor_main"


def run_executor() -> None:
    """Run the executor by `sys.argv`, with warnings and errors of libraries on standard output."""
    # A second configuration, which is Kubeflow's, has no effect.
    logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    runpy.run_module(EXECUTOR, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    run_executor()
