"""What a person sees of a run: a line an evaluation, and under them one bar with the metric people watch."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

BAR = 20  # characters; a line fits 80 columns
LABELS = {"compile_rate": "compile rate"}


class ProgressReporter:
    """The trainer's `Reporter` on a rich console. Without a terminal only the lines are printed."""

    def __init__(self, console: Console, *, steps: int, headline: str) -> None:
        self.headline = headline
        self.label = LABELS.get(headline, headline.replace("_", " "))
        self.progress = Progress(
            TextColumn("training"),
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TextColumn("[bold]{task.fields[held_out]}"),
            TextColumn("{task.fields[train]}"),
            TextColumn("ETA"),
            TimeRemainingColumn(),
            console=console,
            speed_estimate_period=300.0,
        )
        self.task = self.progress.add_task("", total=steps, held_out="", train="")

    def __enter__(self) -> ProgressReporter:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def stepped(self, step: int, metrics: dict[str, float]) -> None:
        train = f"reward {metrics['reward']:.2f}, {metrics['tokens_per_second']:,.0f} tokens/s"
        self.progress.update(self.task, completed=step, train=train)

    def evaluated(self, step: int, metrics: dict[str, float]) -> None:
        value = metrics[self.headline]
        share = 0.0 <= value <= 1.0  # any other number has no bar
        shown = f"{value:.1%}" if share else f"{value:.3g}"
        self.progress.update(self.task, held_out=f"{self.label} {value:.0%}" if share else f"{self.label} {shown}")
        filled = round(BAR * value) if share else 0
        bar = "█" * filled + "░" * (BAR - filled) if share else ""
        lost = f", {metrics['truncated']:.0%} truncated" if metrics["truncated"] >= 0.05 else ""
        self.progress.console.print(
            f"step {step:>4}  held-out {self.label} {shown:>5}  {bar}  {metrics['length']:.0f} tokens{lost}",
            highlight=False,
        )

    def note(self, sentence: str) -> None:
        self.progress.console.print(f"[yellow]{sentence}[/yellow]", highlight=False)
