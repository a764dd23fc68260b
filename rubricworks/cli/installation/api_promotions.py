"""Promotions of an installation, through its API: what `rubricworks promote` does where one is named."""

from rubricworks.errors import UserError
from rubricworks.terminal import echo
from rubricworks.tracking.installation import ApiClient, path_of, request_promotion


def print_models(api: ApiClient) -> None:
    """Print each model with its champion, its challenger, and the request that waits."""
    models = list(api.items("models"))
    waiting = {promotion["model"]: promotion for promotion in api.items("promotions", state="requested")}
    for model in models:
        champion, previous = model["champion"], model["previous"]
        echo(
            f"{model['model']}: champion {f'version {champion}' if champion else '-'}"
            f"{f', previously version {previous}' if previous else ''}"
        )
        if challenger := model["challenger"]:
            standing = "waiting" if challenger["waits"] else "not waiting"
            echo(f"  challenger version {challenger['version']}: {standing} ({challenger['gate']})")
        if request := waiting.get(model["model"]):
            echo(f"  promotion {request['id']}: version {request['version']}, asked by {request['requested_by']}")
    if not models:
        echo(f"no models are registered at {api.url}")


def request(api: ApiClient, model: str, version: int | None, reason: str) -> None:
    """Request that a version, by default the challenger, becomes the champion."""
    if version is None:
        challenger = next((entry["challenger"] for entry in api.items("models") if entry["model"] == model), None)
        if challenger is None:
            raise UserError(f"{model} has no challenger at {api.url}; `rubricworks promote` lists what waits")
        version = int(challenger["version"])
    echo(request_promotion(api, model, version, reason))


def unnamed_champion(model: str, champion: int | None) -> str:
    """Refusal of a rollback that does not say what it rolls back."""
    if champion is None:
        return f"{model} has no champion to roll back"
    return (
        "name the version that is rolled back, so that the same command run again changes nothing; the champion of "
        f"{model} is version {champion}: rubricworks promote {model} --roll-back --version {champion}"
    )


def decide(api: ApiClient, model: str, decision: str, reason: str) -> None:
    """Approve or reject the request that is open for a model."""
    if decision == "reject" and not reason.strip():
        raise UserError("a rejection needs a reason, which the requester reads: --reason")
    items = api.get("promotions", model=model, state="requested")["items"]
    if not items:
        raise UserError(f"no promotion of {model} waits at {api.url}; `rubricworks promote` lists what does")
    promotion: dict[str, object] = api.post(path_of("promotions", items[0]["id"], decision), {"reason": reason})
    if decision == "reject":
        echo(f"{model} version {promotion['version']} is rejected; the champion stays")
    else:
        echo(f"{model} version {promotion['version']} is the champion")


def roll_back(api: ApiClient, model: str, version: int | None, reason: str) -> None:
    """Make the champion before this version the champion again."""
    if version is None:
        champion = next((entry["champion"] for entry in api.items("models") if entry["model"] == model), None)
        raise UserError(unnamed_champion(model, champion))
    promotion = api.post("rollbacks", {"model": model, "champion": version, "reason": reason})
    echo(f"{model} version {promotion['version']} is the champion again")
