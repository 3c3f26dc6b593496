"""A trained policy on the model hub: the whole model or its adapter, with a card; written, checked, then pushed."""

from __future__ import annotations

import functools
import json
import shutil
import tempfile
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypeVar

from botgrpo_cli.errors import InputError, RunError, first_line, nearest
from botgrpo_cli.export.base_model import BaseModel, describe_base
from botgrpo_cli.export.check import PROBE, check_folder, logits
from botgrpo_cli.export.hub_card import make_card
from botgrpo_cli.export.merged import load_trained, stored_dtype, write_whole
from botgrpo_cli.recipe.load import dump_recipe
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.recipe.section import Section
from botgrpo_cli.records.manifest import read_manifest
from botgrpo_cli.records.read import read_metrics
from botgrpo_cli.records.write import write_atomic
from botgrpo_cli.tasks.registry import task_of

if TYPE_CHECKING:
    from botgrpo_cli.policy.load import Policy
    from botgrpo_cli.training.evaluate import Subject

T = TypeVar("T")
HUB_SECONDS = 15.0  # a hub that has not answered by then counts as unreachable
WITHOUT = "`--dry-run DIR` writes the folder without the hub."


@dataclass(frozen=True)
class Trained:
    """What is exported."""

    subject: Subject
    policy: Policy
    base: BaseModel

    @property
    def step(self) -> int:
        return self.subject.checkpoint.step


def check_repo(repo: str) -> None:
    """Raises InputError when `repo` does not look like a name on the hub."""
    from huggingface_hub.utils import HFValidationError, validate_repo_id

    try:
        validate_repo_id(repo)
    except HFValidationError as error:
        raise InputError(f"REPO is '{repo}'; expected USER/NAME, as in ada/tiny-writer. {error}") from error
    if repo.count("/") != 1:
        raise InputError(f"REPO is '{repo}'; expected USER/NAME, as in ada/tiny-writer.")


def checkpoint_of(run: str, step: str) -> str:
    """The run's folder, or the checkpoint that `step` means: `last` or a number.

    Raises:
        InputError: it is neither.
    """
    if step == "last":
        return run
    if not step.isdecimal():
        raise InputError(f"--step is '{step}'; expected last or the number of a step.{nearest(step, ['last'])}")
    return str(Path(run) / "checkpoints" / f"step-{int(step)}")


def load(run: str, step: str) -> Trained:
    """The policy of a checkpoint, float32 on the CPU, and what it started from.

    Raises:
        InputError: there is no such run or checkpoint, or its starting model is not to be had.
    """
    subject, policy = load_trained(checkpoint_of(run, step))
    return Trained(subject, policy, describe_base(subject.recipe.policy.model))


# The folder


def write_folder(trained: Trained, repo: str, place: Path) -> None:
    """Everything that is pushed, into the empty folder `place`. The policy is used up.

    Raises:
        InputError: the run's tables can't be read.
        RunError: what was written does not compute what was trained.
    """
    subject, base = trained.subject, trained.base
    run, recipe = subject.folder, subject.recipe
    manifest, metrics = read_manifest(run), read_metrics(run)
    metrics = metrics[metrics["step"] <= trained.step].assign(base_model=base.name, run=repo)
    headline = str(manifest.get("headline") or task_of(recipe).headline)
    chat = bool(trained.policy.tokenizer.chat_template)
    if recipe.policy.lora:
        write_adapter(trained, place)
    else:
        write_whole(trained.policy, place, stored_dtype(recipe.policy.model))
    held_out = metrics[metrics["split"] == "held-out"]
    card = make_card(
        repo,
        base,
        recipe,
        manifest,
        held_out,
        step=trained.step,
        headline=headline,
        figure=draw(metrics, headline, place),
        chat=chat,
    )
    card.save(place / "README.md")  # peft has written one of its own
    text = dump_recipe(without_places(recipe, base))
    write_atomic(place / "recipe.yaml", text.encode())
    if base.licence is not None and base.licence.file is not None:
        shutil.copyfile(base.licence.file, place / "LICENSE")


def write_adapter(trained: Trained, place: Path) -> None:
    """The adapter as peft loads it on the starting model, tokenizer and generation config beside it."""
    from peft import PeftModel

    policy = trained.policy
    wanted = logits(policy.model, policy.encode(PROBE))  # [T, V]
    policy.model.save_pretrained(place, save_embedding_layers=False)  # else peft asks the hub for the vocabulary's size
    policy.causal_lm.generation_config.save_pretrained(place)
    policy.tokenizer.save_pretrained(place)
    file = place / "adapter_config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    config |= {"base_model_name_or_path": trained.base.name, "revision": None}  # it names the folder of this machine
    file.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    with warnings.catch_warnings():  # peft still reads an attribute that transformers has renamed
        warnings.simplefilter("ignore", FutureWarning)
        start = policy.model.unload()
        check_folder(place, policy, wanted, functools.partial(PeftModel.from_pretrained, start, place))


def draw(metrics: Any, headline: str, place: Path) -> bool:
    """figure.png; False when no evaluation has a value."""
    from botgrpo_cli.plots import PLOTS, save_figure

    try:
        figure = PLOTS["curves"](metrics, metric=headline, split="held-out")
    except InputError:
        return False
    save_figure(figure, place / "figure", ["png"])
    return True


def without_places(recipe: Recipe, base: BaseModel) -> Recipe:
    """The recipe without folders and servers of this machine: of a path its last name is kept."""
    kept = recipe.policy.model if recipe.policy.model.startswith(("tiny:", "small:")) else base.name
    cleaned = _cleaned(recipe)
    policy = cleaned.policy.model_copy(update={"model": kept})
    return cleaned.model_copy(update={"policy": policy, "judge": cleaned.judge.model_copy(update={"url": None})})


def _cleaned(value: Any) -> Any:
    if isinstance(value, Section):
        return value.model_copy(update={name: _cleaned(getattr(value, name)) for name in type(value).model_fields})
    if isinstance(value, dict):
        return {key: _cleaned(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, str) and (PurePath(value).is_absolute() or value.startswith("~")):
        return PurePath(value).name
    return value.replace(str(Path.home()), "~") if isinstance(value, str) else value


# The hub


def require_account(repo: str) -> None:
    """Ask the hub who the token belongs to, before anything is loaded or written.

    Raises:
        InputError: there is no token, the hub does not answer or refuses it, or its owner may not push there.
    """
    from huggingface_hub import HfApi, get_token

    if get_token() is None:
        raise InputError(f"There is no token for the model hub: `hf auth login` stores one, or set HF_TOKEN. {WITHOUT}")
    try:
        account = within(HUB_SECONDS, HfApi().whoami)
    except Exception as error:
        raise InputError(
            f"The model hub can't be used, so nothing was written: {first_line(error)} {WITHOUT}"
        ) from error
    names = [account["name"], *(each["name"] for each in account.get("orgs", []))]
    owner = repo.partition("/")[0]
    if owner.lower() not in [name.lower() for name in names]:
        raise InputError(
            f"REPO is '{repo}', but the token is that of {names[0]}, who pushes to {', '.join(names)}."
            f"{nearest(owner, names)}"
        )


def push(trained: Trained, repo: str, *, private: bool, say: Callable[[str], None] = lambda _: None) -> str:
    """Write, check and upload; returns the address. What was written here is gone afterwards, whatever happens.

    Raises:
        RunError: it could not be written or uploaded, or does not compute what was trained.
    """
    run = trained.subject.folder
    try:
        with tempfile.TemporaryDirectory(prefix=".hub-", dir=run) as folder:  # the disk that has room for checkpoints
            say("Writing and checking.")
            write_folder(trained, repo, Path(folder))
            say(f"Pushing to {repo}.")
            return upload(Path(folder), repo, private=private, words=f"Step {trained.step} of {trained.subject.name}")
    except OSError as error:
        raise RunError(f"The model could not be written: {error.strerror or error}; nothing was pushed.") from error


def upload(folder: Path, repo: str, *, private: bool, words: str) -> str:
    """Raises RunError when the hub does not take it."""
    from huggingface_hub import HfApi

    try:
        made = HfApi().create_repo(repo, private=private or None, exist_ok=True)
        HfApi().upload_folder(repo_id=repo, folder_path=folder, commit_message=words)
    except Exception as error:
        raise RunError(
            f"The upload to {repo} failed: {first_line(error)} The repository may be there, without these files; "
            "nothing was left here. The same command tries again."
        ) from error
    return str(made)


def within(seconds: float, ask: Callable[[], T]) -> T:
    """What `ask` returns or raises, asked in a thread: a name look-up can hang past every time-out."""
    answer: list[tuple[T | None, Exception | None]] = []

    def run() -> None:
        try:
            answer.append((ask(), None))
        except Exception as error:
            answer.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if not answer:
        raise TimeoutError(f"it has not answered for {seconds:.0f} seconds.")
    found, error = answer[0]
    if error is not None:
        raise error
    return found
