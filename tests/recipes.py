"""The recipe with the sections of one task, for tests that build one in memory."""

from __future__ import annotations

from botgrpo_cli.recipe.schema import schema_of
from botgrpo_cli.tasks.aime.task import AimeTask
from botgrpo_cli.tasks.react.task import ReactTask

ReactRecipe = schema_of(ReactTask.keys, ReactTask.rewards).recipe
AimeRecipe = schema_of(AimeTask.keys, AimeTask.rewards).recipe
