"""From a judge's verdicts on steps to a score for each step, window by window.

Paper: a judge marks each step correct, incorrect or uncertain, a window of steps a call; with error propagation, the
default, every step after the first incorrect one scores 0; the alternatives are context-aware and independent judging.
The values, the matching by id and what happens to unusable replies are our choice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Literal, NamedTuple, get_args

from botgrpo_cli.futures import ready
from botgrpo_cli.judges.base import Outcome

Verdict = Literal["correct", "uncertain", "incorrect"]
Strategy = Literal["error-propagation", "context-aware", "independent"]

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
VALUES: Mapping[Verdict, float] = {"correct": 1.0, "uncertain": 0.5, "incorrect": 0.0}
WINDOW = 3  # steps a call (paper)


class Step(NamedTuple):
    """`id` counts from 1, as people and models do; replies are matched by it and never by position."""

    id: int
    text: str


@dataclass(frozen=True)
class StepReply:
    """What came of one call. `verdicts` are pairs (id, verdict) as they stand in the reply, unchecked."""

    outcome: Outcome
    verdicts: tuple[tuple[object, object], ...] = ()
    text: str = ""  # what the judge wrote, for samples.jsonl


# (the window's steps, all steps before it, the judge's own verdicts on these) -> the reply. The problem is bound to the
# function. Own verdicts are given to context-aware judging only. Called from any thread; must not block.
AskSteps = Callable[[Sequence[Step], Sequence[Step], Mapping[int, Verdict]], Future[StepReply]]


@dataclass(frozen=True)
class Matched:
    """The verdicts of one reply by id, and how many ids were missing, unknown (or no id at all) or repeated."""

    verdicts: dict[int, Verdict]
    missing: int
    extra: int
    repeated: int


@dataclass(frozen=True)
class Judged:
    """What came of all calls about one completion. Shapes: `verdicts` [S], `scores` [S].

    A verdict is None where there is none: the reply was unusable, it left the step out, or nobody asked because an
    earlier step was incorrect.
    """

    verdicts: list[Verdict | None]
    scores: list[float]
    outcomes: Counter[Outcome] = field(default_factory=Counter)  # of the calls
    malformed: int = 0  # steps that were asked about and have no verdict
    extra: int = 0
    repeated: int = 0
    texts: tuple[str, ...] = ()

    @property
    def calls(self) -> int:
        return self.outcomes.total()


def match(ids: Sequence[int], pairs: Iterable[tuple[object, object]]) -> Matched:
    """Match a reply's entries to the ids that were asked about.

    An entry counts when its id is an integer among `ids` and its verdict one of the three; of several entries with
    one id the first usable one counts and the others are counted as repeated, whether they agree or not. Any other
    entry is extra.

    >>> match([4, 5], [(5, "correct"), (5, "incorrect"), (9, "correct"), (True, "correct")])
    Matched(verdicts={5: 'correct'}, missing=1, extra=2, repeated=1)
    """
    found: dict[int, Verdict] = {}
    extra = repeated = 0
    for key, verdict in pairs:
        if type(key) is not int or key not in ids or verdict not in VERDICTS:
            extra += 1
        elif key in found:
            repeated += 1
        else:
            found[key] = verdict
    return Matched(found, len(set(ids) - found.keys()), extra, repeated)


def step_scores(
    verdicts: Sequence[Verdict | None],
    *,
    strategy: Strategy = "error-propagation",
    values: Mapping[Verdict, float] = VALUES,
) -> list[float]:
    """Score of each step; a step without a verdict scores 0 and starts no propagation.

    With error propagation every step after the first incorrect one scores 0 (paper), whatever its verdict: the scores
    don't depend on how steps were cut into windows. Shapes: verdicts [S], result [S] in [0, 1].

    >>> step_scores(["correct", None, "uncertain", "incorrect", "correct"])
    [1.0, 0.0, 0.5, 0.0, 0.0]
    >>> step_scores(["correct", None, "uncertain", "incorrect", "correct"], strategy="independent")
    [1.0, 0.0, 0.5, 0.0, 1.0]

    ValueError for an unknown strategy, and for values outside [0, 1].
    """
    _require(strategy, values)
    scores = [0.0 if verdict is None else values[verdict] for verdict in verdicts]
    if strategy == "error-propagation" and "incorrect" in verdicts:
        after = verdicts.index("incorrect") + 1
        scores[after:] = [0.0] * (len(scores) - after)
    return scores


def judge_steps(
    texts: Sequence[str],
    ask: AskSteps,
    *,
    window: int = WINDOW,
    strategy: Strategy = "error-propagation",
    values: Mapping[Verdict, float] = VALUES,
) -> Future[Judged]:
    """Ask about the steps of one completion, `window` at a time; the future raises what `ask` or its future raises.

    - error-propagation: one call after the other, none after the window with the first incorrect step.
    - context-aware: one call after the other to the end, each with the judge's own verdicts so far.
    - independent: all calls at once.

    Every call has the steps before its window. A failed or malformed call leaves its whole window without verdicts.
    Returns at once; it goes on in the threads that finish the calls. Shapes: texts [S].

    ValueError for a window below 1, an unknown strategy, and values outside [0, 1].
    """
    _require(strategy, values)
    if window < 1:
        raise ValueError(f"window is {window}; expected at least 1 step a call.")
    steps = [Step(number, text) for number, text in enumerate(texts, start=1)]
    windows = [steps[start : start + window] for start in range(0, len(steps), window)]
    done: Future[Judged] = Future()
    done.set_running_or_notify_cancel()
    _go_on(_conversation(steps, windows, strategy, values), ask, None, done)
    return done


_Call = tuple[Sequence[Step], Sequence[Step], Mapping[int, Verdict]]
_Conversation = Generator[list[_Call], list[StepReply], Judged]


def _conversation(
    steps: list[Step], windows: list[list[Step]], strategy: Strategy, values: Mapping[Verdict, float]
) -> _Conversation:
    """Yields the calls that can be made now, takes their replies, returns the result. Knows of no threads."""
    verdicts: list[Verdict | None] = [None] * len(steps)
    own: dict[int, Verdict] = {}
    outcomes: Counter[Outcome] = Counter()
    malformed = extra = repeated = 0
    texts: list[str] = []
    rounds = [windows] if strategy == "independent" else [[each] for each in windows]
    for asked in rounds:
        shown = dict(own) if strategy == "context-aware" else {}
        replies = yield [(each, steps[: each[0].id - 1], shown) for each in asked]
        for each, reply in zip(asked, replies, strict=True):
            ids = [step.id for step in each]
            matched = match(ids, reply.verdicts if reply.outcome == "ok" else ())
            own |= matched.verdicts
            outcomes[reply.outcome] += 1
            malformed += matched.missing
            extra += matched.extra
            repeated += matched.repeated
            texts.append(reply.text)
        if strategy == "error-propagation" and "incorrect" in own.values():
            break
    for number, verdict in own.items():
        verdicts[number - 1] = verdict
    scores = step_scores(verdicts, strategy=strategy, values=values)
    return Judged(verdicts, scores, outcomes, malformed, extra, repeated, tuple(texts))


def _go_on(talk: _Conversation, ask: AskSteps, replies: list[StepReply] | None, done: Future[Judged]) -> None:
    """Advances the conversation as far as replies are there; a loop, so that ready replies don't nest 64 calls."""
    try:
        while True:
            waiting = _all([ask(*call) for call in talk.send(replies)])
            if not waiting.done():
                waiting.add_done_callback(partial(_resume, talk, ask, done))
                return
            replies = waiting.result()
    except StopIteration as end:
        done.set_result(end.value)
    except BaseException as problem:  # whoever calls a callback swallows it, and `done` would never be done
        done.set_exception(problem)


def _resume(talk: _Conversation, ask: AskSteps, done: Future[Judged], waiting: Future[list[StepReply]]) -> None:
    problem = waiting.exception()
    if problem is None:
        _go_on(talk, ask, waiting.result(), done)
    else:
        done.set_exception(problem)


def _all(futures: Sequence[Future[StepReply]]) -> Future[list[StepReply]]:
    """One future of all results, done when the last is; it raises what the first of those that failed raises."""
    gathered: Future[list[StepReply]] = Future()
    lock, left = Lock(), len(futures)

    def one_less(_: Future[StepReply]) -> None:
        nonlocal left
        with lock:
            left -= 1
            if left:
                return
        try:
            gathered.set_result([future.result() for future in futures])
        except BaseException as problem:
            gathered.set_exception(problem)

    for future in futures:
        future.add_done_callback(one_less)
    return gathered if futures else ready([])


def _require(strategy: str, values: Mapping[Verdict, float]) -> None:
    if strategy not in get_args(Strategy):
        raise ValueError(f"strategy is {strategy!r}; expected one of {', '.join(get_args(Strategy))}.")
    if values.keys() != set(VERDICTS) or not all(0.0 <= value <= 1.0 for value in values.values()):
        raise ValueError(f"values are {dict(values)}; expected a number from 0 to 1 for each of {', '.join(VERDICTS)}.")
