"""botgrpo winrate: which of two runs writes the better answers, by a pairwise judge."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from botgrpo_cli.commands.options import ScaleOption
from botgrpo_cli.console import console, error_console, progress_console
from botgrpo_cli.errors import InputError, nearest
from botgrpo_cli.records.rooms import RESULTS

if TYPE_CHECKING:
    from botgrpo_cli.judges.pairwise import PairJudge, PairResult, WinRate
    from botgrpo_cli.recipe.schema import JudgeConfig
    from botgrpo_cli.winrate.sides import Side
    from botgrpo_cli.winrate.tables import Steps

KINDS = ("heuristic", "openai", "bedrock")


def winrate(
    a: Annotated[
        str, typer.Argument(metavar="RUN_A", help="A run's folder, a checkpoint, a model, or a folder of answers.")
    ],
    b: Annotated[str, typer.Argument(metavar="RUN_B", help="The other side.")],
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="KIND[:MODEL]",
            help="heuristic, openai (any server that speaks its protocol) or bedrock.",
            show_default="openai when BOTGRPO_JUDGE_URL is set, else heuristic",
        ),
    ] = None,
    shown: Annotated[
        str | None,
        typer.Option(
            "--show", help="What is compared, of apps screenshots or sources.", show_default="the task's first choice"
        ),
    ] = None,
    prompts: Annotated[
        int | None, typer.Option(min=1, help="How many held-out prompts.", show_default="the recipe's")
    ] = None,
    checkpoints: Annotated[
        str, typer.Option(metavar="last|all|20,40", help="Compare the last checkpoints, or a curve over several.")
    ] = "last",
    recipe: Annotated[
        str | None,
        typer.Option(help="Recipe of a bare model or folder.", show_default="the run's, else react_qwen"),
    ] = None,
    scale: ScaleOption = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="judge.KEY=VALUE", help="A setting of the judge; repeatable.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder to write.", show_default="results/winrate-A-v-B")
    ] = None,
    formats: Annotated[
        str, typer.Option("--format", metavar="LIST", help="One or more of png, svg, pdf, with commas between.")
    ] = "png,svg",
) -> None:
    """Let a judge compare the answers of two sides, prompt by prompt, in four rounds that change their order.

    Both sides answer the same held-out prompts. Writes winrate.csv, pairs.jsonl, a figure, and gallery.html, which
    shows the pairs side by side.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from botgrpo_cli.plots import read_formats

    wanted = read_formats(formats)
    config = judge_config(judge, sets or [])
    from botgrpo_cli.winrate import run as library
    from botgrpo_cli.winrate.sides import find_sides, shared_prompts, shared_steps

    first, second = find_sides(a, b, recipe, scale)
    comparison = first.comparison
    shown = shown or comparison.shows[0]
    if shown not in comparison.shows:
        known = " or ".join(comparison.shows)
        raise InputError(f"--show is '{shown}'; expected {known}.{nearest(shown, comparison.shows)}")
    chosen = shared_prompts(first, second, prompts)
    steps = shared_steps(first, second, checkpoints)
    folder = out or default_out(first, second)
    library.make_room(folder)
    terminal = console()
    with Watch(progress_console(), first) as watch:
        watch.say("Preparing the judge.")
        pair_judge = comparison.judge(config, shown, watch.say)
        try:
            warn_of_same_judge(pair_judge, (first, second))
            watch.compares(first, second, len(chosen), steps, pair_judge)
            renderer = comparison.renderer(pair_judge.looks, watch.say)
            with closing(renderer) if renderer else nullcontext():
                try:
                    found = library.win_rates(first, second, steps, chosen, pair_judge, renderer, folder, watch)
                except KeyboardInterrupt:
                    error_console().print(
                        f"Stopped. The steps that were finished are in {folder}; a judge's answers are cached, so the "
                        "same command goes on quickly."
                    )
                    raise
            counters = pair_judge.counters()
        finally:
            pair_judge.close()
    report(terminal, first, second, found, counters)
    from botgrpo_cli.plots import PLOTS, save_figure
    from botgrpo_cli.winrate.tables import PAIRS, TABLE, read_table

    table = read_table(folder / TABLE)
    if table["rate"].notna().any():
        save_figure(PLOTS["winrate"](table), folder / "figure", wanted)
    terminal.print(f"Side by side: {folder / library.GALLERY}; also {TABLE}, {PAIRS} and the figure.", soft_wrap=True)


def judge_config(asked: str | None, sets: list[str]) -> JudgeConfig:
    """The `judge:` section that --judge and --set ask for."""
    from botgrpo_cli.judges.settings import URL_VARIABLE
    from botgrpo_cli.recipe.load import load_recipe
    from botgrpo_cli.training.evaluate import FALLBACK

    kind, _, model = (asked or ("openai" if os.environ.get(URL_VARIABLE) else "heuristic")).partition(":")
    if kind not in KINDS:
        raise InputError(f"--judge is '{asked}'; expected {', '.join(KINDS)}.{nearest(kind, KINDS)}")
    for text in sets:
        if not text.startswith("judge."):
            raise InputError(
                f"--set {text} is no setting of the judge; expected judge.KEY=VALUE, as in judge.temperature=0.2. The "
                "sides are compared as they were trained."
            )
    own = [f"judge.kind={kind}", *([f"judge.model={model}"] if model else [])]
    return load_recipe(FALLBACK, scale="tiny", sets=(*own, *sets)).recipe.judge


def default_out(a: Side, b: Side) -> Path:
    return RESULTS / f"winrate-{_plain(a.name)}-v-{_plain(b.name)}"


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in name)


def warn_of_same_judge(judge: PairJudge, sides: tuple[Side, Side]) -> None:
    """A policy learns what its judge likes, so the paper's evaluation judge is another model."""
    own = judge.describe()
    same = [
        side.name
        for side in sides
        if side.judge and (side.judge.get("kind"), side.judge.get("model")) == (own.get("kind"), own.get("model"))
    ]
    if same:
        error_console().print(
            f"Note: {' and '.join(dict.fromkeys(same))} learnt from this same judge ({judge.label}). What it says is "
            "biased towards what it taught; compare with another one (--judge)."
        )


def report(terminal: Console, a: Side, b: Side, found: Any, counters: dict[str, float | None]) -> None:
    from botgrpo_cli.winrate.run import describe, distinct_names

    names = distinct_names(a, b)
    for row, rate in zip(found.rows, found.rates, strict=True):
        at = "" if row["step_a"] is None else f" (step {row['step_a']})"
        against = "" if row["step_b"] is None else f" (step {row['step_b']})"
        terminal.print(f"{names[0]}{at} against {names[1]}{against}: {describe(rate)}.", soft_wrap=True)
        biased = [
            f"{text} {row[name]:.0%}"
            for name, text in (("first_position_rate", "the first position won"), ("flip_rate", "orders disagreed in"))
            if row[name] is not None
        ]
        if biased:
            terminal.print(f"  Of the rounds with a choice: {', '.join(biased)}.")
    label = found.rows[-1]["judge"]
    if label in ("heuristic", "simulated"):
        terminal.print(f"The judge is {label}: fixed rules over {found.rows[-1]['shown']}, no opinion of quality.")
    elif counters:
        cost = counters.get("cost")
        told = f", cost {cost:,.2f}" if cost is not None else ""
        terminal.print(
            f"Judge {label}: {counters['calls']:.0f} calls, {counters['cache_hits']:.0f} from the cache{told}."
        )


class Watch:
    """One bar: what is sampled or judged now, with the win rate so far."""

    def __init__(self, out: Console, a: Side) -> None:
        self._out, self._name = out, a.name
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TextColumn("[bold]{task.fields[rate]}"),
            TextColumn("ETA"),
            TimeRemainingColumn(),
            console=out,
        )
        self._bar = self._progress.add_task("", total=None, rate="", visible=False)

    def __enter__(self) -> Watch:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def say(self, sentence: str) -> None:
        self._progress.console.print(sentence, markup=False)

    def compares(self, a: Side, b: Side, prompts: int, steps: list[Steps], judge: PairJudge) -> None:
        at = f" at {len(steps)} steps" if len(steps) > 1 else ""
        self.say(f"{a.name} against {b.name}{at}: {prompts} held-out prompts, {judge.shown}, judge {judge.label}.")

    def sampling(self, side: Side, step: int | None, total: int) -> Callable[[], None]:
        at = "" if step is None else f" step {step}"
        self._progress.reset(
            self._bar, total=total, description=f"{side.name}{at}: {side.comparison.answers}", rate="", visible=True
        )
        return lambda: self._progress.advance(self._bar)

    def judging(self, steps: Steps, total: int) -> Callable[[PairResult], None]:
        self._progress.reset(self._bar, total=total, description="judging pairs", rate="", visible=True)
        shares: list[float] = []

        def decided(result: PairResult) -> None:
            if result.a_share is not None:
                shares.append(result.a_share)
            rate = f"{self._name} {sum(shares) / len(shares):.0%}" if shares else ""
            self._progress.update(self._bar, advance=1, rate=rate)

        return decided

    def judged(self, steps: Steps, found: WinRate) -> None:
        self._progress.update(self._bar, visible=False)
