"""`rubricworks convert`: published weights in a torch pickle as a folder of safetensors."""

from pathlib import Path

import click

from rubricworks.terminal import echo


@click.command()
@click.argument("pickle", type=click.Path(path_type=Path))
@click.option(
    "--processor",
    required=True,
    metavar="CLIP",
    help="Folder, or org/name@COMMIT of the Hub, whose tokenizer and image processor it takes.",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of the model.")
def convert(pickle: Path, processor: str, out: Path) -> None:
    """Write a CLIP that is published as a torch PICKLE, such as SPECS', as a folder for `scorers: {specs: {encoder}}`.

    A pickle can run code when it is read. It is read as tensors alone, in a process without network and without your
    files (Landlock; Linux 5.13 or newer).

    \b
    rubricworks convert spec.pt --processor models/clip-vit-base-patch16 --out models/specs
    """
    from rubricworks.training.pickled.clip import convert_clip

    convert_clip(pickle, processor, out)
    echo(f"{out}: a CLIP model with its processor, as safetensors")
