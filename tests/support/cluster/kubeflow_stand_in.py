"""A compiled pipeline of two stages, for what sends pipelines somewhere."""

from pathlib import Path

from kfp import compiler, dsl, kubernetes

ARGUMENTS = {"run": "s3://runs/monday", "first_config": '{"steps": 8}'}


@dsl.component(base_image="image", install_kfp_package=False)
def first(config: str, run: str) -> str:
    return run


@dsl.component(base_image="image", install_kfp_package=False)
def second(run: str) -> str:
    return run


def compiled_pipeline(folder: Path, *, cpu: str = "2", name: str = "small") -> Path:
    """The YAML file; another `cpu` is other content."""

    @dsl.pipeline(name=name)
    def pipeline(run: str, first_config: str) -> None:
        task = first(config=first_config, run=run).set_cpu_limit(cpu)
        kubernetes.add_node_selector(task, "pool", "gpu")
        second(run=task.output)

    path = folder / f"{name}-{cpu}.yaml"
    compiler.Compiler().compile(pipeline, str(path))
    return path
