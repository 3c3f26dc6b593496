"""`python -m botgrpo_cli.tiny build react`: rebuilds the shipped starting policy and measures it."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from statistics import fmean
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from transformers import AutoModelForCausalLM, AutoTokenizer

from botgrpo_cli.errors import InputError, RunError, nearest
from botgrpo_cli.tasks.react.workers import ReactChecker
from botgrpo_cli.tiny import build as building
from botgrpo_cli.tiny import react
from botgrpo_cli.tiny.card import card, write_card
from botgrpo_cli.tiny.measure import Measured, measure

POLICIES = {"react": "react-qwen2"}
TEMPERATURES = {"T = 1": 1.0, "T = 0.3": 0.3, "greedy": 0.0}
app = typer.Typer(add_completion=False, help="The tiny scale's starting policies.")


@app.callback()
def group() -> None:
    """Makes `build` a subcommand although it is the only one."""


@app.command()
def build(
    policy: Annotated[str, typer.Argument(help="Which starting policy: react.")],
    out: Annotated[Path | None, typer.Option(help="Folder to write; the shipped one when left out.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of texts, damage and weights.")] = 0,
    damage: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Probability of an error in a line.")
    ] = building.BuildConfig.damage,
    batches: Annotated[int, typer.Option(min=1, help="Batches of damaged components.")] = building.BuildConfig.batches,
) -> None:
    """Train a policy from scratch, save it, measure it on held-out briefs, write its card."""
    console = Console()
    try:
        if policy not in POLICIES:
            raise InputError(
                f"There is no tiny policy '{policy}'; expected {', '.join(POLICIES)}.{nearest(policy, POLICIES)}"
            )
        config = building.BuildConfig(damage=damage, batches=batches, seed=seed)
        run(config, out or building.WEIGHTS / POLICIES[policy], console)
    except (InputError, RunError) as problem:
        Console(stderr=True).print(str(problem), style="red", markup=False)
        raise typer.Exit(2 if isinstance(problem, InputError) else 1) from problem


def run(config: building.BuildConfig, out: Path, console: Console) -> dict[str, Measured]:
    """Builds into `out`; what was measured on the saved weights, by column of the card.

    The checker comes first, so that a missing Node is found before the training and not after it.
    """
    with ReactChecker(1, timeout=30.0, progress=console.print) as checker:
        tokenizer = building.train_tokenizer(config)
        recent: deque[float] = deque(maxlen=50)
        model = building.new_model(config, tokenizer)
        with _progress(console) as progress:
            bar = progress.add_task("training", total=config.copy_batches + config.batches, loss="")
            for loss in building.fit(model, config, tokenizer):
                recent.append(loss)
                progress.update(bar, advance=1, loss=f"loss {fmean(recent):.3f}")
        building.save(model, tokenizer, out)
        return report(config, out, fmean(recent), checker, console)


def report(
    config: building.BuildConfig, out: Path, loss: float, checker: ReactChecker, console: Console
) -> dict[str, Measured]:
    """Measures the weights as they were saved, fp16 rounding included, and writes the card."""
    model = AutoModelForCausalLM.from_pretrained(out, dtype="float32").eval()
    tokenizer = AutoTokenizer.from_pretrained(out)
    held_out = react.prompts("held-out")
    figures = {}
    for title, temperature in TEMPERATURES.items():
        figures[title] = measure(model, tokenizer, checker, held_out, temperature=temperature)
        console.print(f"{title}: {figures[title].compile_rate:.1%} of {len(held_out)} held-out completions compile")
    write_card(out, card(config, model.num_parameters(), loss, figures))
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
