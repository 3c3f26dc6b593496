"""Which of two answers is better, in four rounds that show them in the order A-B, B-A, B-A, A-B (paper).

The votes are mapped back to the answers before they are counted, so that a judge who always prefers the first gives
exactly 0.5. More votes win, as many is 0.5 for each; a tie or a failed call is no vote, and with fewer than two valid
rounds a pair is invalid (our choice).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from botgrpo_cli.futures import ready, then
from botgrpo_cli.judges import schemas
from botgrpo_cli.judges.base import OUTCOMES, Ask, Image, Judge, Outcome, Reply
from botgrpo_cli.judges.prompting import fenced, template
from botgrpo_cli.stats import Interval, bootstrap_ci
from botgrpo_cli.tasks.base import Prompt

ORDERS = ("AB", "BA", "BA", "AB")
ENOUGH = 2  # valid rounds
Pick = Literal["first", "second", "tie"]


class Drawn(Protocol):
    """What an answer looks like when it is run: a page in a browser."""

    outcome: str  # "drawn" when there is something to see, else blank, error, timeout or crashed
    screenshot: bytes | None
    why: str


@dataclass(frozen=True)
class App:
    """One side of a pair. Without a text, or (where pictures are compared) without one that shows something, it has no
    chance."""

    code: str | None
    rendered: Drawn | None = None

    @property
    def picture(self) -> bytes | None:
        drawn = self.rendered is not None and self.rendered.outcome == "drawn"
        return self.rendered.screenshot if drawn else None


@dataclass(frozen=True)
class Choice:
    """What a judge answers in one round, by position."""

    pick: Pick | None  # None: the call failed
    outcome: Outcome
    text: str = ""


class PairJudge(Protocol):
    label: str  # for the table and the figure; holds "heuristic" or "simulated" where that is so
    looks: bool  # compares pictures; else texts
    shown: str  # what it compares, in a word: "screenshots", "sources", "answers"

    def submit(self, prompt: Prompt, first: App, second: App, *, round: int) -> Future[Choice]: ...

    def counters(self) -> dict[str, float | None]:
        """Calls, outcomes, tokens, cost since the last call (see `base.Judge`); empty for an offline judge."""
        ...

    def describe(self) -> dict[str, Any]:
        """For the manifest, never a key."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Round:
    order: str  # "AB": A was shown first
    vote: Literal["A", "B", "tie"] | None  # None: no valid answer
    outcome: Outcome
    text: str = ""

    @property
    def first(self) -> bool | None:
        """Whether the app in first position was chosen; None without a choice."""
        return self.vote == self.order[0] if self.vote in ("A", "B") else None


@dataclass(frozen=True)
class PairResult:
    """`a_share` is 1 when A wins, 0 when B does, 0.5 for a draw, None when the pair is invalid."""

    prompt: str  # id
    a_share: float | None
    rounds: tuple[Round, ...]  # empty when nobody had to be asked
    forfeit: bool = False  # decided because one of them, or both, had nothing to show


class ModelPairJudge:
    """Implements `PairJudge` over a model: pictures when it `looks`, else texts. `prompt` is the file that asks, and
    `places` are what it has places for beside the request and both answers."""

    def __init__(self, judge: Judge, *, shown: str, prompt: str, looks: bool = False, **places: str) -> None:
        self._judge, self.looks, self.label, self.shown = judge, looks, judge.label, shown
        self._prompt, self._places = prompt, places

    def submit(self, prompt: Prompt, first: App, second: App, *, round: int) -> Future[Choice]:
        return then(self._judge.submit(self.ask(prompt, first, second, round=round)), _choice)

    def ask(self, prompt: Prompt, first: App, second: App, *, round: int) -> Ask:
        """One round's call. `round` keeps the two rounds of each order apart in the cache."""
        words = template(self._prompt)
        kind = self.shown.upper().removesuffix("S")
        shown = [Image(app.picture) if self.looks else fenced(app.code, kind) for app in (first, second)]
        parts = words.parts(request=prompt.text, first=shown[0], second=shown[1], **self._places)
        return Ask(words.system, parts, schemas.PAIR, words.name, round=round, check=_check)

    def counters(self) -> dict[str, float | None]:
        return self._judge.counters()

    def describe(self) -> dict[str, Any]:
        return self._judge.describe()

    def close(self) -> None:
        self._judge.close()


def _check(value: dict) -> None:
    if value.get("better") not in ("first", "second", "tie"):
        raise ValueError(f"'better' is {value.get('better')!r:.60}; expected first, second or tie.")


def _choice(reply: Reply) -> Choice:
    usable = reply.outcome == "ok" and reply.value is not None
    return Choice(reply.value["better"] if usable else None, reply.outcome, reply.text)


def submit_pair(judge: PairJudge, prompt: Prompt, a: App, b: App) -> Future[PairResult]:
    """The four rounds, all in flight at once.

    An answer that has nothing to show loses against one that has, without a call, and two such draw; such pairs are
    marked as forfeits (our choice). The future raises RunError when the judge is out of reach.
    """
    shown = [app.picture if judge.looks else app.code for app in (a, b)]
    if None in shown:
        share = 0.5 if shown == [None, None] else float(shown[0] is not None)
        return ready(PairResult(prompt.id, share, (), forfeit=True))
    apps = {"A": a, "B": b}
    asking = [judge.submit(prompt, apps[order[0]], apps[order[1]], round=number) for number, order in enumerate(ORDERS)]

    def collect(rounds: tuple[Round, ...]) -> PairResult | Future[PairResult]:
        if len(rounds) == len(ORDERS):
            return PairResult(prompt.id, share_of(rounds), rounds)
        order = ORDERS[len(rounds)]
        return then(asking[len(rounds)], lambda choice: collect((*rounds, counted(order, choice))))

    return then(ready(()), collect)


def judge_pair(judge: PairJudge, prompt: Prompt, a: App, b: App) -> PairResult:
    """As `submit_pair`, and waits."""
    return submit_pair(judge, prompt, a, b).result()


def counted(order: str, choice: Choice) -> Round:
    """The choice of a position, mapped back to the answer that stood there.

    >>> counted("BA", Choice("first", "ok")).vote
    'B'
    """
    vote = {"first": order[0], "second": order[1], "tie": "tie", None: None}[choice.pick]
    return Round(order, vote, choice.outcome, choice.text)


def share_of(rounds: Sequence[Round]) -> float | None:
    """A's share of the pair: 1, 0.5 or 0; None with fewer than two valid rounds. A tie is valid and no vote."""
    votes = Counter(each.vote for each in rounds)
    if len(rounds) - votes[None] < ENOUGH:
        return None
    return 0.5 + 0.5 * ((votes["A"] > votes["B"]) - (votes["A"] < votes["B"]))


@dataclass(frozen=True)
class WinRate:
    """Of A over B. Shares are of the valid pairs; rates are None where nothing could be counted."""

    n: int  # valid pairs
    invalid: int
    forfeits: int  # among the valid ones
    win: float | None
    tie: float | None
    loss: float | None
    rate: Interval | None  # mean of A's shares with a bootstrap interval over prompts
    first_position_rate: float | None  # of the rounds with a choice, those that chose the first: 0.5 has no bias
    flip_rate: float | None  # of neighbouring rounds in opposite order that both chose, those that disagree
    outcomes: dict[str, int]  # rounds by outcome of their call


def summarise(results: Sequence[PairResult]) -> WinRate:
    """Counts, rates and a cluster bootstrap over prompts. W(A, B) + W(B, A) = 1. Raises ValueError for no results."""
    if not results:
        raise ValueError("there is no pair to summarise")
    valid = [result for result in results if result.a_share is not None]
    shares = [result.a_share for result in valid]
    rounds = [each for result in results for each in result.rounds]
    firsts = [each.first for each in rounds if each.first is not None]
    flips = [
        one.vote != other.vote
        for result in results
        for one, other in (result.rounds[:2], result.rounds[2:])[: len(result.rounds) // 2]
        if one.first is not None and other.first is not None
    ]
    outcomes = Counter(each.outcome for each in rounds)
    return WinRate(
        n=len(valid),
        invalid=len(results) - len(valid),
        forfeits=sum(result.forfeit for result in valid),
        win=_mean([share == 1.0 for share in shares]),
        tie=_mean([share == 0.5 for share in shares]),
        loss=_mean([share == 0.0 for share in shares]),
        rate=bootstrap_ci(shares, [result.prompt for result in valid]) if valid else None,
        first_position_rate=_mean(firsts),
        flip_rate=_mean(flips),
        outcomes={outcome: outcomes[outcome] for outcome in OUTCOMES},
    )


def _mean(values: Sequence[bool]) -> float | None:
    return sum(values) / len(values) if values else None
