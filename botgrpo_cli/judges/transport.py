"""What lies between the judge's client and one kind of server: a prompt out, an answer or a fault back.

`openai_http.py` and `bedrock.py` implement `Transport`. Neither retries, parses or counts; the client does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from botgrpo_cli.judges.base import Image

Rung = Literal["json_schema", "json_object", "prompt"]
"""How a reply is made to be JSON: the server enforces the schema, enforces JSON alone, or is only asked."""

RETRIED = frozenset({408, 409, 429})  # beside every 5xx
WORDS = 400  # characters kept of what a server says in an error


@dataclass(frozen=True)
class Prompt:
    """One request: an `Ask` with the sampling parameters, as a transport sends it."""

    system: str
    parts: tuple[str | Image, ...]
    schema: dict
    rung: Rung
    temperature: float | None
    max_tokens: int

    @property
    def system_text(self) -> str:
        """The system message; where the server does not enforce the schema, it stands in here."""
        if self.rung == "json_schema":
            return self.system
        asked = (
            "Reply with one JSON object and nothing else: no text around it, no code fence. "
            f"It follows this JSON schema:\n{json.dumps(self.schema, separators=(',', ':'))}"
        )
        return f"{self.system}\n\n{asked}".strip()

    @property
    def text(self) -> str | None:
        """The user message of a prompt without images, its parts with a blank line between; None with images."""
        texts = [part for part in self.parts if isinstance(part, str)]
        return "\n\n".join(texts) if len(texts) == len(self.parts) else None


@dataclass(frozen=True)
class Answer:
    """What the server sent. `length`: cut off at the token limit; `refused`: the model or a filter would not."""

    text: str
    finish: Literal["stop", "length", "refused"]
    prompt_tokens: int | None  # None: the server did not say
    completion_tokens: int | None
    model: str | None  # the model as the server names it


class Fault(Exception):
    """A call that brought no answer. `status` is None when the connection failed or timed out."""

    def __init__(
        self, words: str, status: int | None = None, *, retry_after: float | None = None, again: bool | None = None
    ) -> None:
        self.words = " ".join(words.split())[:WORDS].rstrip(". ") or "no words"
        self.status = status
        self.retry_after = retry_after  # seconds that the server asks to wait
        transient = status is None or status in RETRIED or status >= 500
        self.again = transient if again is None else again
        super().__init__(f"{status}: {self.words}" if status else self.words)


class Transport(Protocol):
    """One server and one model. `send` is called from several threads."""

    kind: str  # openai | bedrock
    model: str
    address: str  # what tells this server from another, in the cache's key
    host: str  # for people and the manifest
    rungs: tuple[Rung, ...]  # those that this kind of server has, the best first

    def send(self, prompt: Prompt) -> Answer:
        """Raises Fault, its words already without keys."""
        ...

    def models(self) -> list[str]:
        """Names of the models there, for a suggestion; empty when the server does not tell."""
        ...

    def clean(self, text: str) -> str:
        """`text` without any key that this transport holds."""
        ...

    def close(self) -> None: ...


def server_words(body: Any, fallback: str) -> str:
    """The sentence in the body of an error: `error.message`, `error`, `message` or `detail`, as servers have it."""
    if isinstance(body, str) and body:
        return body
    if isinstance(body, Mapping):
        inner = body.get("error", body)
        if isinstance(inner, str):
            return inner
        if isinstance(inner, Mapping):
            for name in ("message", "Message", "detail"):
                if isinstance(inner.get(name), str):
                    return inner[name]
    return fallback
