"""`python -m botgrpo_cli.tiny build react-qwen2`: rebuilds a shipped starting policy and measures it."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from transformers import AutoModelForCausalLM, AutoTokenizer

from botgrpo_cli.errors import InputError, RunError, nearest
from botgrpo_cli.tiny import WEIGHTS
from botgrpo_cli.tiny import build as building
from botgrpo_cli.tiny.card import card, write_card
from botgrpo_cli.tiny.policies import POLICIES
from botgrpo_cli.tiny.texts import Meter

app = typer.Typer(add_completion=False, help="The tiny scale's starting policies.")


@app.callback()
def group() -> None:
    """Makes `build` a subcommand although it is the only one."""


@app.command()
def build(
    policy: Annotated[str, typer.Argument(help=f"Which starting policy: {', '.join(POLICIES)}.")],
    out: Annotated[Path | None, typer.Option(help="Folder to write; the shipped one when left out.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of texts, damage and weights.")] = 0,
    damage: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Probability of an error in a line or a step; the policy's when left out."),
    ] = None,
) -> None:
    """Train a policy from scratch, save it, measure it on held-out prompts, write its card."""
    console = Console()
    try:
        if policy not in POLICIES:
            raise InputError(
                f"There is no tiny policy '{policy}'; expected {', '.join(POLICIES)}.{nearest(policy, POLICIES)}"
            )
        config = replace(POLICIES[policy], seed=seed)
        if damage is not None:
            config = replace(config, stages=(*config.stages[:-1], replace(config.stages[-1], damage=damage)))
        run(policy, config, out or WEIGHTS / policy, console)
    except (InputError, RunError) as problem:
        Console(stderr=True).print(str(problem), style="red", markup=False)
        raise typer.Exit(2 if isinstance(problem, InputError) else 1) from problem


def run(name: str, config: building.BuildConfig, out: Path, console: Console) -> dict[str, Any]:
    """Builds into `out`; what was measured on the saved weights, by column of the card.

    The meter comes first, so that a missing Node is found before the training and not after it.
    """
    with config.source.meter(console.print) as meter:
        started = time.monotonic()
        tokenizer = building.train_tokenizer(config)
        recent: deque[float] = deque(maxlen=50)
        model = building.new_model(config, tokenizer)
        with _progress(console) as progress:
            bar = progress.add_task("training", total=config.copy_batches + config.batches, loss="")
            for loss in building.fit(model, config, tokenizer):
                recent.append(loss)
                progress.update(bar, advance=1, loss=f"loss {fmean(recent):.3f}")
        building.save(model, tokenizer, out)
        return report(name, config, out, fmean(recent), (time.monotonic() - started) / 60, meter, console)


def report(
    name: str, config: building.BuildConfig, out: Path, loss: float, minutes: float, meter: Meter, console: Console
) -> dict[str, Any]:
    """Measures the weights as they were saved, fp16 rounding included, and writes the card."""
    model = AutoModelForCausalLM.from_pretrained(out, dtype="float32").eval()
    tokenizer = AutoTokenizer.from_pretrained(out)
    figures = {}
    for title, temperature in config.source.temperatures.items():
        figures[title] = meter(model, tokenizer, temperature=temperature)
        for label, field, form in config.source.rows:
            console.print(f"{title}: {label} {form.format(getattr(figures[title], field))}", highlight=False)
    text = card(
        name,
        config,
        parameters=model.num_parameters(),
        vocabulary=len(tokenizer),
        loss=loss,
        minutes=minutes,
        figures=figures,
    )
    write_card(out, text)
    console.print(f"Written to {out}")
    return figures


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[loss]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    )


if __name__ == "__main__":
    app()
