"""The types between a judge and those who ask it: one call, its reply, and what a judge can do.

A protocol (`code.py`, `screenshot.py`, `pairwise.py`) writes an `Ask`; a judge (`client.py`) answers with a `Reply`.
Neither knows anything else of the other.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal, Protocol

Outcome = Literal["ok", "malformed", "refused", "transport_failed"]
OUTCOMES: tuple[Outcome, ...] = ("ok", "malformed", "refused", "transport_failed")


@dataclass(frozen=True)
class Image:
    """A picture of the user message: the bytes of its file and their media type."""

    data: bytes
    media_type: str = "image/png"


@dataclass(frozen=True)
class Ask:
    """One call of a judge."""

    system: str
    parts: tuple[str | Image, ...]
    """The user message, in order."""
    schema: dict
    """JSON schema of the reply, an object."""
    template: str
    """Prompt file and version, as in "code-judge/1"; part of the cache key."""
    round: int = 0
    """The rounds of a pairwise comparison are different calls, so that the cache never answers one with another."""
    check: Callable[[dict], None] | None = None
    """Raises ValueError with a sentence when ids or ranges are wrong; the call is then asked once more."""


@dataclass(frozen=True)
class Reply:
    """What came of a call. A failure is no low score: look at `outcome` first."""

    outcome: Outcome
    value: dict | None
    """The parsed and checked reply; only when `outcome` is ok."""
    text: str
    """What the model wrote, or the failure in words; goes into samples.jsonl, so it never holds a key."""
    cached: bool
    seconds: float
    """From the first try to the answer, retries and waits included, the queue for a place not; 0 from the cache."""
    prompt_tokens: int | None
    """None when the server did not say; so are the others' tokens."""
    completion_tokens: int | None


class Judge(Protocol):
    """What a protocol talks to. Every method may be called from several threads."""

    sees_images: bool
    """Whether the probe found that images reach the model."""
    label: str
    """"openai:MODEL" or "bedrock:MODEL", for the manifest and figures."""

    def ask(self, ask: Ask) -> Reply:
        """The answer to one call; blocks, and tries again inside.

        Raises RunError for what no further call can mend: 400, 401, 403 or 404, or over 20 % of at least 20 calls that
        failed in transport. Every other failure is an outcome.
        """
        ...

    def submit(self, ask: Ask) -> Future[Reply]:
        """As `ask`, at once and through the one cap on calls in flight; the future raises what `ask` raises."""
        ...

    def counters(self) -> dict[str, float | None]:
        """Since the last call of `counters`: calls, cache hits, each outcome, tokens, cost, p50 and p95 seconds.

        Tokens and cost are None when the server or the recipe's price table does not say. See `cost.py`.
        """
        ...

    def describe(self) -> dict:
        """For the manifest: kind, model, host of the URL, what the probe found, sampling parameters. Never a key."""
        ...

    def close(self) -> None:
        """Waits for nothing: calls that have not started are cancelled. Calling it twice is fine."""
        ...
