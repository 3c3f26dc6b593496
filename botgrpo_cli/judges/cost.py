"""What judging costs: calls, tokens, money and time. What a server does not tell is None, never 0."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence

from botgrpo_cli.judges.base import OUTCOMES, Reply
from botgrpo_cli.recipe.schema import PriceConfig


class Tokens:
    """A sum of token counts that is None as soon as one of them is unknown."""

    def __init__(self) -> None:
        self.prompt: int | None = 0
        self.completion: int | None = 0

    def add(self, prompt: int | None, completion: int | None) -> None:
        self.prompt = None if self.prompt is None or prompt is None else self.prompt + prompt
        self.completion = None if self.completion is None or completion is None else self.completion + completion

    def cost(self, prices: PriceConfig) -> float | None:
        """In the currency of `prices`, which are per million tokens; None when prices or tokens are unknown."""
        if None in (prices.input, prices.output, self.prompt, self.completion):
            return None
        return (self.prompt * prices.input + self.completion * prices.output) / 1e6


class _Window:
    def __init__(self) -> None:
        self.counts = dict.fromkeys(("asks", "calls", "cache_hits", *OUTCOMES), 0)
        self.tokens = Tokens()
        self.seconds: list[float] = []


class Meter:
    """Counts for one step at a time (`take`) and over the whole life (`total`). Safe for several threads."""

    def __init__(self, prices: PriceConfig) -> None:
        self.prices = prices
        self._lock = threading.Lock()
        self._step, self._life = _Window(), _Window()

    def called(self) -> None:
        """One request goes out: a first one, a re-ask or another try."""
        with self._lock:
            for window in (self._step, self._life):
                window.counts["calls"] += 1

    def answered(self, prompt_tokens: int | None, completion_tokens: int | None) -> None:
        """One request was answered, whatever the answer is worth. One that failed has no tokens."""
        with self._lock:
            for window in (self._step, self._life):
                window.tokens.add(prompt_tokens, completion_tokens)

    def replied(self, reply: Reply) -> None:
        """One ask is done. The time of a reply out of the cache says nothing of the server, so it is left out."""
        with self._lock:
            for window in (self._step, self._life):
                window.counts["asks"] += 1
                window.counts[reply.outcome] += 1
                window.counts["cache_hits"] += reply.cached
            if not reply.cached:
                self._step.seconds.append(reply.seconds)

    def take(self) -> dict[str, float | None]:
        """The counts since the last `take`, which start again at 0: keys of `total`, and seconds_p50, seconds_p95."""
        with self._lock:
            done, self._step = self._step, _Window()
        return {
            **self._shown(done),
            "seconds_p50": quantile(done.seconds, 0.5),
            "seconds_p95": quantile(done.seconds, 0.95),
        }

    def total(self) -> dict[str, float | None]:
        """asks, calls, cache_hits, ok, malformed, refused, transport_failed, prompt_tokens, completion_tokens, cost."""
        with self._lock:
            return self._shown(self._life)

    def _shown(self, window: _Window) -> dict[str, float | None]:
        tokens = window.tokens
        shown: dict[str, float | None] = dict(window.counts)
        cost = tokens.cost(self.prices)
        return {**shown, "prompt_tokens": tokens.prompt, "completion_tokens": tokens.completion, "cost": cost}


def quantile(values: Sequence[float], q: float) -> float | None:
    """The smallest value that at least the share `q` of `values` does not exceed; None of nothing.

    >>> quantile([3.0, 1.0, 2.0], 0.5), quantile([], 0.5)
    (2.0, None)
    """
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(q * len(values)) - 1)]
