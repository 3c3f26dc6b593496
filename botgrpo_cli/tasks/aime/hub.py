"""AIME data sets on the Hugging Face hub. The package ships none of their problems: they are their owners'."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from botgrpo_cli.errors import InputError, nearest
from botgrpo_cli.tasks.tables import INSTALL, Table, table_of


@dataclass(frozen=True)
class Preset:
    """Where a data set keeps its problems and answers."""

    split: str
    problem: str
    answer: str
    configs: tuple[str | None, ...] = (None,)


PRESETS = {
    "di-zhang-fdu/AIME_1983_2024": Preset("train", "Question", "Answer"),
    "AI-MO/aimo-validation-aime": Preset("train", "problem", "answer"),
    "HuggingFaceH4/aime_2024": Preset("train", "problem", "answer"),
    "Maxwell-Jia/AIME_2024": Preset("train", "Problem", "Answer"),
    "math-ai/aime24": Preset("test", "problem", "solution"),  # the answer in a box
    "math-ai/aime25": Preset("test", "problem", "answer"),
    "opencompass/AIME2025": Preset("test", "question", "answer", ("AIME2025-I", "AIME2025-II")),
    "MathArena/aime_2025": Preset("train", "problem", "answer"),
}


def load_hub(
    name: str, *, split: str | None = None, config: str | None = None, cache: Path | None = None
) -> tuple[Table, Preset | None]:
    """The rows of a hub data set (or of a folder that `datasets` can read), and its preset if there is one.

    `split` and `config` come before those of the preset; without a preset the split is "train". Raises InputError
    when `datasets` is not installed, and when the data set can't be loaded.
    """
    try:
        import datasets
    except ImportError:
        raise InputError(f"The data set {name} is read through the library `datasets`: {INSTALL}.") from None
    preset = PRESETS.get(name)
    split = split or (preset.split if preset else "train")
    configs = (config,) if config or not preset else preset.configs
    records: list[dict] = []
    for each in configs:
        try:
            records += datasets.load_dataset(name, each, split=split, cache_dir=cache and str(cache)).to_list()
        except Exception as error:  # the library raises its own, the hub's, pyarrow's and built-in errors
            raise InputError(
                f"The data set {name} (split '{split}'{f', config {each!r}' if each else ''}) could not be loaded: "
                f"{_short(error)}.{'' if preset else nearest(name, PRESETS)} Without a connection, download it as csv, "
                "jsonl or parquet and give the file."
            ) from error
    return table_of(name, records), preset


def _short(error: Exception) -> str:
    first = str(error).strip().partition("\n")[0].rstrip(".")
    return first or type(error).__name__
