"""Recipes for the task aime and completions of it, one byte a token."""

from __future__ import annotations

from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.tasks.base import Completion, Prompt
from tests.recipes import AimeRecipe

PROBLEM = Prompt("p", "Find x.", "medium", ("42",))


def recipe(source: str = "chains", **sections: dict) -> Recipe:
    base = {
        "task": {"name": "aime", "instruction": "Solve: {problem}", "problems": {"source": source}},
        "reward": {"format": {"weight": 1.0}},
        "judge": {"kind": "exact"},
        "evaluation": {"prompts": 4},
    }
    for section, keys in sections.items():
        base[section] = base.get(section, {}) | keys
    return AimeRecipe.model_validate(base)


def completion(text: str, prompt: Prompt = PROBLEM, *, finished: bool = True) -> Completion:
    pieces = tuple(bytes([byte]) for byte in text.encode("utf-8", "surrogatepass"))
    return Completion(prompt, (*pieces, b"") if finished else pieces, finished)
