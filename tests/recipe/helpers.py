"""Recipes written to a folder and loaded, with prompt counts that are always enough unless a test says otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from botgrpo_cli.recipe.errors import RecipeError
from botgrpo_cli.recipe.load import LoadedRecipe, load_recipe
from botgrpo_cli.recipe.schema import Recipe


def plenty(recipe: Recipe) -> tuple[int, int]:
    return 10_000, 10_000


def write(folder: Path, text: str, name: str = "my.yaml") -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


def load(name_or_path: str, **options: object) -> LoadedRecipe:
    return load_recipe(name_or_path, counts=plenty, **options)


def problems_of(name_or_path: str, **options: object) -> list[str]:
    """The lines of the error, without the folders of the files."""
    options.setdefault("counts", plenty)
    with pytest.raises(RecipeError) as caught:
        load_recipe(name_or_path, **options)
    lines = [str(problem) for problem in caught.value.problems]
    assert str(caught.value).splitlines()[1:] == lines
    return [line.removeprefix(f"{Path(name_or_path).parent}/") for line in lines]
