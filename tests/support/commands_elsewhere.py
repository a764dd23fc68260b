"""Commands of README.md and the guides that no test runs from the page: which test runs them, and why it does so there.

The test of a command has its words. Every other command is run as the page has it (`e2e/test_guides.py`).
"""

_ITSELF = "makes the environment that the tests run in"
_CLUSTER = "needs a cluster"
_KUBEFLOW = "asks Kubeflow's API, which a server stands in for"
_INSTALLATION = "asks an installation with several people"
_HUB = "asks the Hugging Face Hub, which a server stands in for"
_GPU = "needs GPUs; is rehearsed in miniature"
_LAPTOP = "takes minutes"

ELSEWHERE: dict[str, tuple[str, str]] = {
    # beginning of the command → why, and the test below `tests`
    "make demo": (_ITSELF, "e2e/test_quickstart.py"),
    "make test": (_ITSELF, ""),
    "make test-fast": (_ITSELF, ""),
    "make lint": (_ITSELF, ""),
    "make docs": (_ITSELF, "test_site.py"),
    "make images": ("needs docker or podman", "docker/test_dockerfile.py"),
    "pre-commit install": ("needs pre-commit", ""),
    "docker/build.sh": ("needs docker or podman", "docker/test_dockerfile.py"),
    "REGISTRY=registry.example/team": ("needs docker or podman", "docker/test_dockerfile.py"),
    "docker buildx": ("needs docker", ""),
    "model_signing verify": ("needs a built image", "docker/test_provenance.py"),
    "openssl": ("makes a key, as tests do", ""),
    "export RUBRICWORKS_SIGNING_KEY": ("needs a registry", "tracking/test_signatures.py"),
    "RUBRICWORKS_SIGNING_KEY=signing.pub rubricworks fetch": ("needs a registry", "tracking/test_signatures.py"),
    "rubricworks fetch": ("needs a registry", "tracking/test_signatures.py"),
    "pip install": ("needs a package index", "e2e/test_wheel.py"),
    "kind": (_CLUSTER, "cluster/kind.sh"),
    "kubectl": (_CLUSTER, "cluster/test_chart_team.py"),
    "helm": (_CLUSTER, "cluster/test_chart_team.py"),
    "aws s3api": (_CLUSTER, "cluster/test_projects_in_one_store.py"),
    "psql": (_CLUSTER, "cluster/test_projects_in_one_store.py"),
    "promtool": (_CLUSTER, "cluster/test_monitoring.py"),
    "mkdir": (_CLUSTER, "cluster/test_backup_restore.py"),
    "pg_dump": (_CLUSTER, "cluster/test_backup_restore.py"),
    "pg_restore": (_CLUSTER, "cluster/test_backup_restore.py"),
    "rclone": (_CLUSTER, "cluster/test_backup_restore.py"),
    'RUBRICWORKS_DATABASE_URL="$NEW_DATABASE_URL"': (_CLUSTER, "cluster/test_backup_restore.py"),
    "curl": (_INSTALLATION, "cluster/test_backup_restore.py"),
    "rubricworks run my-recipe.yaml": ("needs a GPU; first-run.md has a student that needs none", "e2e/conftest.py"),
    "rubricworks rehearse": (_LAPTOP, "rehearsal/test_rehearse.py"),
    "rubricworks pipelines push": (_KUBEFLOW, "cli/test_kubeflow_commands.py"),
    "rubricworks run my.yaml --on kubeflow": (_KUBEFLOW, "cli/test_kubeflow_commands.py"),
    "rubricworks schedules create": (_KUBEFLOW, "cli/test_kubeflow_commands.py"),
    "rubricworks runs list": (_KUBEFLOW, "cli/test_kubeflow_commands.py"),
    "rubricworks runs stop": (_KUBEFLOW, "cli/test_kubeflow_commands.py"),
    "rubricworks runs prune": (_INSTALLATION, "runs/test_pruning_runs.py"),
    "rubricworks world serve": ("serves until it is stopped", "world/test_scene_world_questions_export.py"),
    "export AWS_ENDPOINT_URL": ("needs a store", "cluster/test_s3_kill_and_resume.py"),
    "rubricworks run quickstart --runs s3": ("needs a store", "cluster/test_s3_kill_and_resume.py"),
    "rubricworks run --resume first --runs s3": ("needs a store", "cluster/test_s3_kill_and_resume.py"),
    "rubricworks server forget": (_INSTALLATION, "platform_api/test_source_removal.py"),
    "rubricworks server": ("serves until it is stopped", "platform_api/test_api_command.py"),
    "RUBRICWORKS_API_TOKEN=$(openssl": ("serves until it is stopped", "platform_api/test_api_command.py"),
    "rubricworks tokens create": (_INSTALLATION, "cli/installation/test_api_commands.py"),
    "rubricworks login": (_INSTALLATION, "cli/installation/test_api_commands.py"),
    "export RUBRICWORKS_API": (_INSTALLATION, "cli/installation/test_api_commands.py"),
    "rubricworks runs submit": (_INSTALLATION, "cli/installation/test_api_commands.py"),
    "rubricworks runs logs": (_INSTALLATION, "cli/installation/test_api_commands.py"),
    "rubricworks runs ask-again": (_INSTALLATION, "cli/installation/test_api_commands.py"),
    "rubricworks study labels": (_INSTALLATION, "cli/installation/test_api_commands.py"),
    "rubricworks study preferences": (_INSTALLATION, "cli/installation/test_api_commands.py"),
    "rubricworks rubrics propose": (_INSTALLATION, "cli/installation/test_api_commands.py"),
    "rubricworks rubrics versions": (_INSTALLATION, "cli/installation/test_api_commands.py"),
    "rubricworks rubrics approve": (_INSTALLATION, "cli/installation/test_api_commands.py"),
    "rubricworks promote": (_INSTALLATION, "cli/test_promote_command.py"),
    "rubricworks push my-run": (_HUB, "cli/test_push.py"),
    "rubricworks push quickstart-20260101-120000 my-org/captioner": (_HUB, "cli/test_push.py"),
    "rubricworks rubrics push": (_HUB, "cli/test_rubrics_push.py"),
    "rubricworks rubrics import org/name@COMMIT": (_HUB, "cli/test_hub_places.py"),
    "rubricworks grade org/captions@COMMIT": (_HUB, "cli/test_hub_places.py"),
    "rubricworks run my.yaml --set data.source=parquet:org/": (_HUB, "cli/test_pinned_models.py"),
    "rubricworks run rlr3-laptop": (_LAPTOP, "e2e/test_rlr3.py"),
    "rubricworks run balcaprl-laptop": (_LAPTOP, "e2e/test_balcaprl.py"),
    "rubricworks run rubricrl-ar-laptop": (_LAPTOP, "e2e/test_laptop_recipes.py"),
    "rubricworks run rubricrl-diffusion-laptop": (_LAPTOP, "e2e/test_laptop_recipes.py"),
    "rubricworks run recaption-pretrain-laptop": (_LAPTOP, "e2e/test_laptop_recipes.py"),
    "rubricworks run quickstart": (_LAPTOP, "e2e/test_quickstart.py"),
    "rubricworks run rubicap-laptop": (_LAPTOP, "e2e/test_laptop_recipes.py"),
    "rubricworks run rubicap": (_GPU, "rehearsal/test_rehearse.py"),
    "rubricworks run rlr3": (_GPU, "rehearsal/test_rehearse.py"),
    "rubricworks run balcaprl": (_GPU, "rehearsal/test_rehearse.py"),
    "rubricworks run rubricrl": (_GPU, "rehearsal/test_rehearse.py"),
    "rubricworks run recaption-pretrain": (_GPU, "rehearsal/test_rehearse.py"),
    "rubricworks recaption cc3m/": ("needs vLLM; an endpoint stands in", "cli/single_steps/test_recaption_command.py"),
    "rubricworks arms": ("takes hours", "cli/test_arms_command.py"),
    "rubricworks claims": ("takes hours", "cli/test_claims_command.py"),
    "rubricworks audit": ("needs a run of RLR³", "cli/test_audit_command.py"),
    "rubricworks study rubrics": ("needs a run of RubricRL", "methods/rubricrl/test_rubricrl_stages.py"),
    "rubricworks study images": ("needs a run of RubricRL", "methods/rubricrl/test_rubricrl_stages.py"),
    "rubricworks study results": ("needs a run of RubricRL", "methods/rubricrl/test_rubricrl_stages.py"),
    "rubricworks run --resume my-run": ("needs a run that reached its budget", "runtime/test_budget.py"),
    "rubricworks table rubicap 2 runs/own": ("needs runs of arms, which take an hour", "claims/test_paper_tables.py"),
    "rubricworks conformance": ("needs code of one's own", "cli/test_conformance_command.py"),
}  # fmt: skip


def place_of(command: str) -> tuple[str, str] | None:
    """Reason and test of a command that is run elsewhere, by its longest beginning. Plans are run from the page."""
    if "--dry-run" in command and command.startswith("rubricworks run "):
        return None
    beginnings = [begin for begin in ELSEWHERE if f"{command} ".startswith(begin)]
    return ELSEWHERE[max(beginnings, key=len)] if beginnings else None
