"""Training and evaluation as function calls, in a script or a notebook.

>>> from botgrpo_cli import evaluate, load_recipe, train
>>> run = train("react_qwen", scale="tiny", sets=["training.steps=20"])   # doctest: +SKIP
>>> run.metrics, run.figure()                                             # doctest: +SKIP
>>> evaluate(run.folder, k=[1, 2, 4]).table                               # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from botgrpo_cli.policy.load import Policy
    from botgrpo_cli.recipe.load import LoadedRecipe
    from botgrpo_cli.recipe.schema import Recipe


@dataclass(frozen=True)
class Run:
    """A finished run. Its folder is that of `botgrpo train`, so every command works on it too."""

    folder: Path
    recipe: Recipe
    headline: str  # the held-out metric that people watch
    policy: Policy  # as it is after the last step

    @property
    def model(self) -> PreTrainedModel:
        """The transformers model, adapters inside it when there are any."""
        return self.policy.model

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        return self.policy.tokenizer

    @property
    def metrics(self) -> pd.DataFrame:
        """metrics.csv: one value a row, with `step`, `split`, `metric`, `value` and the labels of the run."""
        from botgrpo_cli.records.read import read_metrics

        return read_metrics(self.folder)

    @property
    def samples(self) -> list[dict[str, Any]]:
        """The rollouts that were kept, see docs/tasks.md and samples.jsonl."""
        from botgrpo_cli.records.read import read_samples

        return read_samples(self.folder)

    def figure(self, metric: str | None = None, split: str = "held-out") -> Figure:
        """A metric over training steps; without a name the headline."""
        from botgrpo_cli.plots import PLOTS
        from botgrpo_cli.records.read import metrics_files, read_runs

        return PLOTS["curves"](read_runs(metrics_files(self.folder)), metric=metric or self.headline, split=split)

    def __repr__(self) -> str:
        rows = self.metrics
        held_out = rows[(rows["split"] == "held-out") & (rows["metric"] == self.headline)]
        ends = held_out[["step", "value"]].to_numpy()[[0, -1]]
        curve = ", ".join(f"{value:.3g} (step {step:.0f})" for step, value in ends)
        return f"Run({str(self.folder)!r}: held-out {self.headline} {curve})"


@dataclass(frozen=True)
class Evaluation:
    """What `evaluate` found. `table`: metric, value, low and high of its 95 % interval over prompts. `completions`: one
    row a completion with prompt_id, text, reward and every fact and term of the task."""

    table: pd.DataFrame
    completions: pd.DataFrame
    headline: str


def train(
    recipe: str | Path | Recipe | LoadedRecipe,
    *,
    scale: str | None = None,
    sets: Sequence[str] = (),
    seed: int | None = None,
    steps: int | None = None,
    method: str | None = None,
    engine: str = "native",
    out: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
) -> Run:
    """Train a recipe, as `botgrpo train` does, with a live line of progress in the terminal or the notebook.

    `recipe` is a shipped name, a path, or what `load_recipe` gave; the options change the former two. `out` is the
    run's folder, by default results/RECIPE-SCALE-METHOD-seedN.

    Raises:
        InputError: the recipe is wrong, something is missing, or the folder is taken; nothing was started.
        RunError: the run can't go on; the last checkpoint is kept.
        KeyboardInterrupt: the state is saved; the same call with `resume=True` goes on.
    """
    from rich.console import Console

    from botgrpo_cli.commands.progress import ProgressReporter
    from botgrpo_cli.training import engines, run, session, trackers

    loaded = _recipe(recipe, scale=scale, sets=sets, seed=seed, steps=steps, method=method)
    engines.known(engine)
    engines.check_recipe(engine, loaded)
    folder = Path(out) if out is not None else run.default_out(loaded)
    if resume:
        run.refuse_other_recipe(loaded, folder)
        engines.refuse_other_engine(engine, folder)
    elif folder.exists():
        run.refuse_occupied(folder)
    trackers.prepare(loaded.training.trackers, folder)
    console = Console(highlight=False, quiet=not progress)
    with console.status("Loading.") as status:
        prepared = run.prepare(loaded, folder, say=status.update)
    with prepared.task:
        reporter = ProgressReporter(console, steps=loaded.training.steps, headline=prepared.task.headline)
        begun = session.begin(prepared, engines.make_engine(engine, prepared), reporter, resume=resume)
        reporter.progress.update(reporter.task, completed=begun.trainer.step)
        with reporter:
            session.finish(begun)
    return Run(folder, loaded, prepared.task.headline, prepared.policy)


def evaluate(
    subject: str | Path,
    *,
    recipe: str | Path | None = None,
    scale: str | None = None,
    split: str = "held-out",
    prompts: int | None = None,
    samples: int | None = None,
    k: Sequence[int] = (),
    seed: int | None = None,
) -> Evaluation:
    """Rates and Pass@k with intervals, as `botgrpo evaluate` gives them; writes no files.

    `subject` is a run's folder, a checkpoint, a model, or a file of completions.

    Raises:
        InputError: it is none of these, or has too few samples a prompt for `k`.
    """
    import pandas as pd

    from botgrpo_cli.training import completions
    from botgrpo_cli.training import evaluate as library
    from botgrpo_cli.training.estimates import estimate
    from botgrpo_cli.training.rollouts import facts

    named = str(recipe) if recipe is not None else None
    if completions.is_completions(str(subject)):
        scored = library.score_file(library.find_file(str(subject), named, scale))
    else:
        found = library.with_samples(library.find_subject(str(subject), named, scale), seed)
        scored = library.sample_answers(found, split, ks=list(k), prompts=prompts, samples=samples)
    rows = estimate(scored.answers, scored.headline, list(k))
    written = [
        {"prompt_id": answer.prompt.id, "prompt": answer.prompt.text, **_text(answer), **facts(answer.scored)}
        for answer in scored.answers
    ]
    return Evaluation(pd.DataFrame(rows), pd.DataFrame(written), scored.headline)


def _text(answer: Any) -> dict[str, Any]:
    return {"text": answer.text, "tokens": answer.tokens, "finished": answer.finished}


def _recipe(recipe: str | Path | Recipe | LoadedRecipe, **changes: Any) -> Recipe:
    from botgrpo_cli.errors import InputError
    from botgrpo_cli.recipe.load import LoadedRecipe, load_recipe
    from botgrpo_cli.recipe.schema import Recipe

    if isinstance(recipe, str | Path):
        return load_recipe(recipe, **changes).recipe
    if given := [name for name, value in changes.items() if value not in (None, ())]:
        raise InputError(
            f"{' and '.join(given)} would change a recipe that is loaded already; give them to load_recipe."
        )
    loaded = recipe.recipe if isinstance(recipe, LoadedRecipe) else recipe
    if not isinstance(loaded, Recipe):
        raise InputError(f"train was given {recipe!r:.80}; expected the name or path of a recipe, or a loaded one.")
    return loaded
