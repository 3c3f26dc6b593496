"""Prompts and scorer of reasoning-gym: `reasoning-gym:NAME`.

Some scorers of the library run the answer as Python, through `eval` or sympy's parser (countdown, spiral_matrix,
simple_integration and others): what the policy writes then has the rights of the process that scores.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.metadata import version
from typing import Any

from botgrpo_cli.errors import InputError, nearest
from botgrpo_cli.tasks.own.functions import Function, Rows
from botgrpo_cli.tasks.tables import as_json

PREFIX = "reasoning-gym:"
DEFAULTS: dict[str, Any] = {"size": 1000, "seed": 0, "config": {}}
KEPT = 4096  # items that are kept once they are made anew for scoring

_BRACE = re.compile(r"\\boxed\s*\{|[{}]")


class GymSource:
    """A data set of reasoning-gym, whose items and scores are the library's own.

    `rows` has one split, of which a share is held out where the rows are read. Columns: `prompt` and `question` (the
    same text), `answer` (the library's, None where a puzzle has many), `index` and `metadata` of the item.
    """

    def __init__(self, name: str, dataset: Any, size: int) -> None:
        self._place, self._dataset, self._size = f"{PREFIX}{name}", dataset, size
        self._item = lru_cache(KEPT)(dataset.__getitem__)
        doc = "The data set's own score of the answer: of the last <answer>, else the last box, else the whole text."
        solved = Function("solved", "term", low=0.0, high=1.0, doc=doc, place=self._place, weight=1.0)
        self.functions: dict[str, tuple[Function, Callable[..., Any]]] = {"solved": (solved, self.solved)}
        self.versions = {"reasoning-gym": version("reasoning-gym")}

    def rows(self) -> Rows:
        """Raises InputError when the library fails to make an item."""
        made = []
        for index in range(self._size):
            try:
                item = self._dataset[index]
            except Exception as problem:
                raise InputError(f"{self._place} can't make its item {index}: {_words(problem)}.") from problem
            made.append({"prompt": item["question"], **as_json(item), "index": index})
        return {"train": made}

    def solved(self, text: str, question: str, answer: Any, index: int, metadata: Any) -> float:
        """The score from 0 to 1 of the answer that `text` gives to the item `index`.

        Many scorers can't parse any text and raise; an answer that one can't is wrong and scores 0. An error that the
        library's own answer causes too is raised, for then it isn't the completion's.
        """
        item = self._entry(question, answer, index, metadata)
        given = extract_answer(text)
        try:
            return float(self._dataset.score_answer(given, item))
        except Exception:
            self._dataset.score_answer(item["answer"], item)
            return 0.0

    def _entry(self, question: str, answer: Any, index: int, metadata: Any) -> dict[str, Any]:
        """The item as the library made it: some scorers tell tuples from lists, which a row doesn't.

        A few data sets make other items in another process, since they go through sets of texts. Then it is the row's,
        as for none of those the difference matters (seen with 0.1.25).
        """
        row = {"question": question, "answer": answer, "metadata": metadata}
        item = self._item(index)
        return item if as_json(item) == row else row


def load(name: str, options: Mapping[str, Any]) -> GymSource:
    """The data set `name`. Options: `size` (1000) and `seed` (0), and `config`, the data set's own parameters.

    Raises InputError: the library is missing, it has no such data set or option, or refuses the parameters.
    """
    try:
        import reasoning_gym
        from reasoning_gym.factory import DATASETS
    except ImportError:
        raise InputError(f"{PREFIX}{name} needs the library reasoning-gym: pip install 'botgrpo[gym]'.") from None
    if name not in DATASETS:
        raise InputError(f"reasoning-gym has no data set '{name}'.{nearest(name, DATASETS)}")
    size, seed, config = _checked(name, options, DATASETS[name][1])
    try:
        dataset = reasoning_gym.create_dataset(name, size=size, seed=seed, **config)
    except Exception as problem:  # an assertion, mostly
        raise InputError(f"{PREFIX}{name} refuses the config {config}: {_words(problem)}.") from problem
    return GymSource(name, dataset, size)


def extract_answer(text: str) -> str:
    r"""The last `<answer>…</answer>`, as reasoning-gym's system prompts ask for and its own reading takes, else the
    content of the last closed `\boxed{}`, else the whole text; without white space around it. Takes linear time.

    >>> extract_answer("<answer>1</answer> no: <answer> 2\n</answer>"), extract_answer(r"So \boxed{\frac{1}{2}}.")
    ('2', '\\frac{1}{2}')
    """
    start = text.rfind("<answer>", 0, max(0, text.rfind("</answer>")))
    if start >= 0:
        return text[start + len("<answer>") : text.index("</answer>", start)].strip()
    last, opened = (-1, -1), []
    for brace in _BRACE.finditer(text):
        if brace[0] != "}":
            opened.append(brace)
        elif opened and (before := opened.pop())[0] != "{":
            last = max(last, (before.end(), brace.start()))
    return (text[last[0] : last[1]] if last[0] >= 0 else text).strip()


def _checked(name: str, options: Mapping[str, Any], parameters: type) -> tuple[int, int, dict[str, Any]]:
    """Size, seed and config."""
    place = f"{PREFIX}{name}"
    for option in options:
        if option not in DEFAULTS:
            known = ", ".join(DEFAULTS)
            raise InputError(f"{place} has no option '{option}'; expected {known}.{nearest(option, DEFAULTS)}")
    size, seed, config = ({**DEFAULTS, **options}[option] for option in DEFAULTS)
    for option, value, least in (("size", size, 1), ("seed", seed, 0)):
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise InputError(f"The option {option} of {place} is {value!r}; expected a whole number from {least}.")
    if not isinstance(config, dict):
        raise InputError(f"The option config of {place} is {config!r}; expected parameters and their values.")
    known = [field.name for field in dataclasses.fields(parameters) if field.name not in ("size", "seed")]
    for parameter in config:
        if parameter in ("size", "seed"):
            raise InputError(f"{parameter} is an option of {place} itself; take it out of its config.")
        if parameter not in known:
            hint = nearest(parameter, known)
            raise InputError(f"{place} has no parameter '{parameter}'; it has {', '.join(known)}.{hint}")
    return size, seed, config


def _words(problem: BaseException) -> str:
    return str(problem).strip().partition("\n")[0].rstrip(".") or type(problem).__name__
