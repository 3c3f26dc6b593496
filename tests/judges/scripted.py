"""The real client over a transport that answers from a function: parsing, checks, re-asks and counters are the real
ones, only the wire is not there."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

from botgrpo_cli.judges.base import Image
from botgrpo_cli.judges.cache import ReplyCache
from botgrpo_cli.judges.client import JudgeClient
from botgrpo_cli.judges.probe import Probe
from botgrpo_cli.judges.retry import Patience
from botgrpo_cli.judges.transport import Answer, Fault, Prompt
from botgrpo_cli.recipe.schema import JudgeConfig

Script = Callable[[Prompt], "dict | str | Fault"]


class ScriptedTransport:
    kind, model, address, host, rungs = "openai", "scripted", "nowhere", "nowhere", ("json_schema",)

    def __init__(self, script: Script) -> None:
        self.script = script
        self.sent: list[Prompt] = []
        self._lock = threading.Lock()

    def send(self, prompt: Prompt) -> Answer:
        with self._lock:
            self.sent.append(prompt)
            said = self.script(prompt)
        if isinstance(said, Fault):
            raise said
        return Answer(said if isinstance(said, str) else json.dumps(said), "stop", 10, 5, self.model)

    def models(self) -> list[str]:
        return [self.model]

    def clean(self, text: str) -> str:
        return text

    def close(self) -> None:
        """Holds nothing open."""


def scripted(
    script: Script, *, images: bool = True, cache: ReplyCache | None = None
) -> tuple[JudgeClient, ScriptedTransport]:
    """A client whose server says what `script` returns: an object, a text, or a Fault."""
    transport = ScriptedTransport(script)
    found = Probe("json_schema", images, "a blue square was called red", transport.model, True)
    config = JudgeConfig(kind="openai", url="http://nowhere/v1", model="scripted", tries=1)
    return JudgeClient(transport, config, found, patience=Patience(1), cache=cache), transport


def text_of(prompt: Prompt) -> str:
    return "\n".join("[image]" if isinstance(part, Image) else part for part in prompt.parts)
