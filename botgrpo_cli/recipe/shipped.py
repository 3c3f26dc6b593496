"""Where the shipped recipes are, and how a name or a path becomes a file."""

from __future__ import annotations

from pathlib import Path

import botgrpo_cli
from botgrpo_cli.errors import nearest


def shipped_dir() -> Path:
    """The folder of the shipped recipes: package data in a wheel, the sibling `recipes/` in a checkout."""
    package = Path(botgrpo_cli.__file__).parent
    packaged = package / "_recipes"
    return packaged if packaged.is_dir() else package.parent / "recipes"


def shipped_names() -> list[str]:
    """Names of the shipped recipes, sorted."""
    return sorted(path.stem for path in shipped_dir().glob("*.yaml"))


def launcher_names() -> list[str]:
    """Names of the shipped configurations for `accelerate launch`, sorted."""
    return sorted(f"accelerate/{path.stem}" for path in (shipped_dir() / "accelerate").glob("*.yaml"))


def scale_file(scale: str) -> Path:
    """The generic overlay of a scale."""
    return shipped_dir() / "scales" / f"{scale}.yaml"


def find_recipe(name_or_path: str, folder: Path) -> tuple[Path | None, str]:
    """The file that a name or a path (relative to `folder`) means, and an empty text.

    When there is none: None, and what was found and expected.
    """
    names = shipped_names()
    if name_or_path in names:
        return shipped_dir() / f"{name_or_path}.yaml", ""
    path = folder / Path(name_or_path).expanduser()
    try:
        if name_or_path and path.exists():
            return path, ""
    except (OSError, ValueError):  # a name that is too long or holds a NUL
        pass
    hint = nearest(Path(name_or_path).stem, names)
    known = ", ".join(names)
    return None, f"Found no recipe {name_or_path!r}; expected a path or a shipped recipe: {known}.{hint}"


def shown(path: Path) -> str:
    """How messages write `path`: relative when it lies below the working directory."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
