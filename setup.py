"""Puts the recipes, which stand at the top of the checkout for people to read, into the wheel as package data.

Everything else about the package is in pyproject.toml. An editable install needs no copy: it finds `recipes/` beside
the package.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

RECIPES = Path("recipes")
TARGET = Path("botgrpo_cli/_recipes")


def recipe_files() -> list[Path]:
    return sorted(path for path in RECIPES.rglob("*") if path.suffix in (".yaml", ".md") and path.is_file())


class BuildWithRecipes(build_py):
    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for path, copy in zip(recipe_files(), self._copies(), strict=True):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        extra = [] if self.editable_mode else [str(copy) for copy in self._copies()]
        return super().get_outputs(include_bytecode) + extra

    def _copies(self) -> list[Path]:
        return [Path(self.build_lib) / TARGET / path.relative_to(RECIPES) for path in recipe_files()]


setup(cmdclass={"build_py": BuildWithRecipes})
