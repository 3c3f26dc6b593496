"""Where the problems of a run come from: generated texts, a file, a hub data set, or the library reasoning-gym."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Literal

from botgrpo_cli.errors import InputError, nearest
from botgrpo_cli.tasks.aime import words
from botgrpo_cli.tasks.aime.data import Loaded, Problem, collect, load_problems, split_problems, without
from botgrpo_cli.tasks.aime.keys import ProblemsConfig
from botgrpo_cli.tasks.aime.verdicts import Verdict
from botgrpo_cli.tasks.base import Prompt, Split
from botgrpo_cli.tasks.tables import table_of
from botgrpo_cli.tiny import chains

GYM = "reasoning-gym:"
Read = Callable[[str], chains.Chain]


@dataclass(frozen=True)
class Generated:
    """Generated problems, in two splits of their own, whose every step can be checked."""

    prompts: Callable[[Split], list[Prompt] | tuple[Prompt, ...]]
    counts: dict[Split, int]
    read: Read  # the chain of a problem; ValueError when there is none
    verify: Callable[..., list[Verdict]]
    complete: Callable[[chains.Chain, str], bool]  # whether a solution has all its steps


GENERATED = {
    "chains": Generated(
        chains.prompts,
        chains.PROMPT_COUNTS,
        chains.read_problem,
        chains.verify,
        lambda chain, text: chains.check(chain, text).complete,
    ),
    "words": Generated(words.prompts, words.PROMPT_COUNTS, words.read_problem, words.verify, words.complete),
}


@dataclass(frozen=True)
class ProblemSet:
    """The prompts of both splits, without instruction; `counts` and `versions` go into the manifest."""

    prompts: dict[Split, tuple[Prompt, ...]]
    counts: dict[str, object] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)


def known_counts(config: ProblemsConfig) -> tuple[int, int] | None:
    """Prompts for training and held-out ones, where they are known without loading anything."""
    made = GENERATED.get(config.source)
    return (made.counts["train"], made.counts["held-out"]) if made else None


def load_set(config: ProblemsConfig) -> ProblemSet:
    """Reads, checks and splits the problems that a recipe names.

    No problem is in both splits: they are split by a hash of the text, or what is also held out leaves the training
    set. Raises InputError: no such source, rows that can't be used, nothing left for a split.
    """
    if config.source in GENERATED:
        made = GENERATED[config.source]
        splits: tuple[Split, ...] = ("train", "held-out")
        return ProblemSet({split: tuple(made.prompts(split)) for split in splits}, {"source": config.source})
    loaded = _load(config.source, config)
    counts: dict[str, object] = {"source": loaded.source, **loaded.counts}
    if config.held_out is None:
        train, held_out = split_problems(loaded.problems, seed=config.seed, share=config.share)
    else:
        other = _load(config.held_out, config)
        held_out = other.problems
        train = without(loaded.problems, held_out)
        counts |= {"in_both": len(loaded.problems) - len(train)}
        counts |= {"held_out_source": other.source, "held_out": other.counts}
    for split, part in (("training", train), ("held-out", held_out)):
        if not part:
            raise InputError(_nothing_left(split, len(loaded.problems), config))
    used = [config.source, config.held_out or ""]
    packages = {"reasoning-gym": any(s.startswith(GYM) for s in used)}
    return ProblemSet(
        {"train": _prompts(train), "held-out": _prompts(held_out)},
        counts,
        {name: version(name) for name, wanted in packages.items() if wanted},
    )


def _load(source: str, config: ProblemsConfig) -> Loaded:
    if source in GENERATED:
        raise InputError(f"task.problems.held_out is '{source}', which has a training set of its own: name the source.")
    if source.startswith(GYM):
        return load_gym(source.removeprefix(GYM), size=config.size, seed=config.seed)
    same = source == config.source  # columns and the like are those of the source, held-out problems have their own
    return load_problems(
        source,
        problem_column=config.problem_column if same else None,
        answer_column=config.answer_column if same else None,
        split=config.split if same else None,
        config=config.config if same else None,
        skip_odd=config.skip_odd,
    )


def load_gym(name: str, *, size: int, seed: int) -> Loaded:
    """`size` problems of a data set that reasoning-gym generates; those without an integer answer from 0 to 999 are
    left out and counted as odd.

    Raises InputError: the library is missing, it has no such data set, or none of its answers can be used.
    """
    try:
        import reasoning_gym
        from reasoning_gym.factory import DATASETS
    except ImportError:
        raise InputError(f"{GYM}{name} needs the library reasoning-gym: pip install 'botgrpo[gym]'.") from None
    if name not in DATASETS:
        raise InputError(f"reasoning-gym has no data set '{name}'.{nearest(name, DATASETS)}")
    made = reasoning_gym.create_dataset(name, size=size, seed=seed)
    records = [{"problem": item["question"], "answer": item["answer"]} for item in made]
    loaded = collect(table_of(f"{GYM}{name}", records), "problem", "answer")
    if not loaded.problems:
        raise InputError(
            f"{GYM}{name}: none of {size} problems has an integer answer from 0 to 999 (the first: "
            f"'{str(records[0]['answer'])[:60]}')."
        )
    return loaded


def _prompts(problems: tuple[Problem, ...]) -> tuple[Prompt, ...]:
    return tuple(problem.prompt for problem in problems)


def _nothing_left(split: Literal["training", "held-out"], count: int, config: ProblemsConfig) -> str:
    if config.held_out:
        return f"All {count} problems of {config.source} are in {config.held_out} too, so none is left to train on."
    return (
        f"None of the {count} problems of {config.source} is left for the {split} set with task.problems.share "
        f"{config.share:g}; change it, or name another source in task.problems.held_out."
    )
