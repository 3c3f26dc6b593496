"""What a tiny policy is trained on and measured by: the builder's only view of the React and the AIME texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, Protocol

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from botgrpo_cli.tiny import chain_damage, chains, measure, measure_chains, react
from botgrpo_cli.tiny.damage import damage
from botgrpo_cli.tiny.families import words

TextName = Literal["react", "aime"]


@dataclass(frozen=True)
class Stage:
    """A part of the training: how many batches, of what."""

    batches: int
    damage: float = 0.0  # probability of an error in a line or a step
    operations: tuple[int, int] | None = None  # fewest and most of a chain; None: as many as the prompts have


class Meter(Protocol):
    """Measures a policy on the held-out prompts; one completion a prompt or several."""

    def __call__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, *, temperature: float) -> Any: ...


@dataclass(frozen=True)
class Text:
    """A kind of text. `examples` are endless (prompt, completion) pairs of the train split for a seed and a stage."""

    trained_on: str  # of the card
    pieces: str | None  # regular expression: a token never reaches over the end of a match
    words: tuple[str, ...]  # tokens beside those of the BPE
    examples: Callable[[int, Stage], Iterator[tuple[str, str]]]
    copied: Callable[[], Iterable[str]]  # what completions take over from prompts, one token each
    meter: Callable[[Callable[[str], None]], AbstractContextManager[Meter]]  # gets what prints the progress
    rows: Sequence[tuple[str, str, str]]  # of the card's table: label, field, format
    temperatures: Mapping[str, float]


# --- React -----------------------------------------------------------------------------------------------------------
# A capitalised word or a digit is its own piece, and a space before it belongs to what stands before: a title is the
# same id in brief and code, right after the id of "titled". A line break takes the indentation after it along.
REACT_PIECES = r"\n *|[0-9]|(?:[A-Z]?[a-z]+|[A-Z]| [a-z]+| ?[^\s\p{L}\p{N}]+)(?: (?=[A-Z0-9]))?|\s|[^\sa-zA-Z0-9]"


def react_examples(seed: int, stage: Stage) -> Iterator[tuple[str, str]]:
    rng = Random(f"damage-{seed}")
    for task in react.draw_many("train", seed + 1):
        source, _ = damage(rng, react.write(task, rng), stage.damage)
        yield task.prompt.text, react.answer(source)


def react_copied() -> Iterable[str]:
    """The words of the vocabulary and the digits that a component takes over from its brief."""
    return (*words.TITLES, *(word for theme in words.THEMES for word in theme), *words.PEOPLE, *words.ROLES, *DIGITS)


@contextmanager
def react_meter(progress: Callable[[str], None]) -> Iterator[Meter]:
    from botgrpo_cli.tasks.react.workers import ReactChecker

    with ReactChecker(1, timeout=30.0, progress=progress) as checker:
        yield lambda model, tokenizer, *, temperature: measure.measure(
            model, tokenizer, checker, react.prompts("held-out"), temperature=temperature
        )


# --- AIME ------------------------------------------------------------------------------------------------------------
# A digit is a token of its own; the number of an operation is the same id in problem and step, a key to look it up by.
AIME_WORDS = (
    *("user\n", "assistant\n", "Start with ", ". Then do, in order:\n", "What is the last result?"),
    *("Step ", "\n\nStep ", "\n\nThe last result is ", "\\boxed{", "}."),
    *(f"{number}: " for number in range(1, max(chains.OPERATIONS["hard"]) + 1)),
    *("+ ", "- ", "* ", " + ", " - ", " * ", " = "),  # in the problem, in a step
)


def aime_examples(seed: int, stage: Stage) -> Iterator[tuple[str, str]]:
    return chain_damage.examples(seed, stage.damage, operations=stage.operations)


DIGITS = "0123456789"
TEXTS: dict[TextName, Text] = {
    "react": Text(
        f"generated briefs ({len(react.FAMILIES)} families) and components in which each line holds an error",
        REACT_PIECES,
        (),
        react_examples,
        react_copied,
        react_meter,
        measure.ROWS,
        {"T = 1": 1.0, "T = 0.3": 0.3, "greedy": 0.0},
    ),
    "aime": Text(
        "generated chains of integer operations and solutions in which each step holds an error",
        None,
        AIME_WORDS,
        aime_examples,
        lambda: (*DIGITS, " + ", " - ", " * "),
        lambda progress: nullcontext(measure_chains.measure),
        measure_chains.ROWS,
        {"T = 1": 1.0, "T = 0.6": 0.6, "greedy": 0.0},
    ),
}
