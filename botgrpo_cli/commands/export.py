"""botgrpo export: a trained policy or a recipe in the form that other programs read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from botgrpo_cli.commands.options import MethodOption, RecipeArgument, ScaleOption, SetOption
from botgrpo_cli.console import console, error_console, progress_console
from botgrpo_cli.errors import InputError, nearest

app = typer.Typer(help="Write a trained policy, or a recipe, for other programs.", no_args_is_help=True)

FolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="The new folder; it may exist if it is empty.")]
FORMATS = ("auto", "float32", "bfloat16", "float16")


@app.command()
def merged(
    run: Annotated[
        str, typer.Argument(metavar="RUN_OR_CHECKPOINT", help="A run's folder (its last checkpoint), or a checkpoint.")
    ],
    folder: FolderArgument,
    dtype: Annotated[
        str, typer.Option(help="auto (that of the starting model's files), float32, bfloat16 or float16.")
    ] = "auto",
) -> None:
    """Write the trained model as `from_pretrained` loads it: adapters merged, tokenizer and chat template beside it."""
    if dtype not in FORMATS:
        raise InputError(f"--dtype is '{dtype}'; expected {', '.join(FORMATS)}.{nearest(dtype, FORMATS)}")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from botgrpo_cli.export import merged as library
    from botgrpo_cli.export.folder import refuse_occupied

    refuse_occupied(folder)
    with progress_console().status("Loading.") as status:
        found, policy = library.load_trained(run)
        stored = library.choose_stored(dtype, found.recipe.policy.model)
        status.update("Merging and writing.")
        library.save_merged(policy, folder, stored)
    word = str(stored).removeprefix("torch.")
    console().print(f"{found.name}, step {found.checkpoint.step}: the model is in {folder}/, in {word}.")


@app.command()
def hub(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder.")],
    repo: Annotated[str, typer.Argument(metavar="REPO", help="USER/NAME on the model hub; made where it is new.")],
    dry_run: Annotated[
        Path | None,
        typer.Option("--dry-run", metavar="DIR", help="Write what would be pushed into this new folder, push nothing."),
    ] = None,
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
    step: Annotated[str, typer.Option(metavar="N|last", help="Which checkpoint.")] = "last",
) -> None:
    """Push the trained model, or its adapter, to the model hub, with a card: recipe, figure, measurements, licence."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from botgrpo_cli.export import hub as library
    from botgrpo_cli.export.folder import new_folder, refuse_occupied

    library.check_repo(repo)
    library.checkpoint_of(run, step)
    if dry_run is not None:
        refuse_occupied(dry_run)
    with progress_console().status("Loading.") as status:
        if dry_run is None:
            library.require_account(repo)
        trained = library.load(run, step)
        if dry_run is None:
            address = library.push(trained, repo, private=private, say=status.update)
        else:
            status.update("Writing and checking.")
            with new_folder(dry_run) as place:
                library.write_folder(trained, repo, place)
    if trained.base.licence is None:
        error_console().print(
            f"The licence of the starting model {trained.base.name} is not known here; fill it in in README.md.",
            markup=False,
        )
    if dry_run is None:
        console().print(f"{trained.subject.name}, step {trained.step}: {address}", soft_wrap=True)
        return
    files = sorted(path for path in dry_run.rglob("*") if path.is_file())
    kind = "private" if private else "public"
    console().print(f"Dry run: {dry_run}/ holds what would go to {repo} ({kind} where it is new), nothing was pushed:")
    for path in files:
        console().print(f"  {path.relative_to(dry_run)}  {path.stat().st_size / 1e6:,.3f} MB", markup=False)


@app.command()
def verl(
    recipe: RecipeArgument,
    folder: FolderArgument,
    scale: ScaleOption = None,
    sets: SetOption = None,
    method: MethodOption = None,
) -> None:
    """Write a folder from which verl trains RECIPE: settings, prompts, reward manager and launch line."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from botgrpo_cli.export import verl as library
    from botgrpo_cli.export.folder import refuse_occupied
    from botgrpo_cli.recipe.load import load_recipe

    refuse_occupied(folder)
    loaded = load_recipe(recipe, scale=scale, sets=sets or (), method=method)
    for note in loaded.notes:
        error_console().print(note, markup=False)
    with progress_console().status("Loading.") as status:
        library.write_folder(loaded.recipe, folder, status.update)
    console().print(f"The folder {folder} is ready; its README.md says what is in it. Start verl with:")
    console().print(f"  {folder / 'launch.sh'}", soft_wrap=True)
