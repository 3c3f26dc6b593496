"""Where the shipped studies are, and how a name or a path becomes a file."""

from __future__ import annotations

from pathlib import Path

from botgrpo_cli.errors import nearest
from botgrpo_cli.recipe.shipped import shipped_dir

# The order of the paper's figures, which is also that of `botgrpo ablate all`.
_ORDER = (
    "baselines",
    "winrate",
    "base-models",
    "reward-stack",
    "aime",
    "aime-models",
    "local-strategy",
    "local-weight",
    "step-window",
    "vlm-stability",
    "reward-hacking",
    "bag",
)


def studies_dir() -> Path:
    """The folder of the shipped studies."""
    return shipped_dir() / "studies"


def study_names() -> list[str]:
    """Names of the shipped studies, in the order of the paper's figures, then any others by name."""
    there = {path.stem for path in studies_dir().glob("*.yaml")}
    return [name for name in _ORDER if name in there] + sorted(there - set(_ORDER))


def sweeps_dir() -> Path:
    """The folder of the shipped sweeps: studies of one key, which `botgrpo ablate all` leaves out."""
    return shipped_dir() / "sweeps"


def sweep_names() -> list[str]:
    return sorted(path.stem for path in sweeps_dir().glob("*.yaml"))


def shipped_studies() -> list[str]:
    """Names that `botgrpo ablate` takes: the studies, then the sweeps."""
    return [*study_names(), *sweep_names()]


def find_study(name_or_path: str) -> tuple[Path | None, str]:
    """The file that a name or a path means, and an empty text. When there is none: None, and what was expected."""
    folders = {name: studies_dir() for name in study_names()} | {name: sweeps_dir() for name in sweep_names()}
    if name_or_path in folders:
        return folders[name_or_path] / f"{name_or_path}.yaml", ""
    path = Path(name_or_path).expanduser()
    try:
        if name_or_path and path.is_file():
            return path, ""
    except (OSError, ValueError):  # a name that is too long or holds a NUL
        pass
    hint = nearest(Path(name_or_path).stem, [*folders, "all"])
    known = ", ".join(folders)
    return None, f"Found no study {name_or_path!r}; expected a file, all, or a shipped study: {known}.{hint}"
