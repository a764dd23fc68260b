from kfp import dsl

from rubricworks.components.images import CPU


@dsl.component(base_image=CPU, install_kfp_package=False, packages_to_install=[])
def promote(config: str, run: str, evaluations: str, policy: str, samples: str) -> str:
    """Register the policy and make it champion if it passes the gate.

    Args:
        config: the stage's own configuration as JSON.
        run: URI of the run's folder.
        evaluations: URI of the evaluations table.
        policy: URI of the trained policy.
        samples: URI of the samples table.

    Returns:
        URI of the promotion's record.
    """
    from rubricworks.stages.launch import launch

    return launch("promote", config, run, {"evaluations": evaluations, "policy": policy, "samples": samples})
