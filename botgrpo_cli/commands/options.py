"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

RecipeArgument = Annotated[
    str, typer.Argument(metavar="RECIPE", help="A recipe file, or the name of a shipped recipe.")
]
ScaleOption = Annotated[str | None, typer.Option(help="tiny, small or paper.", show_default="the recipe's, else paper")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY.SUB=VALUE", help="Override one key; repeatable.")
]
SeedOption = Annotated[int | None, typer.Option(help="training.seed.", show_default="the recipe's")]
StepsOption = Annotated[int | None, typer.Option(help="training.steps.", show_default="the recipe's")]
MethodOption = Annotated[str | None, typer.Option(help="method.name.", show_default="the recipe's")]
