"""One function of a file, asked in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from botgrpo_cli.tasks.own.functions import Answer, Call, Failure
from botgrpo_cli.tasks.own.pool import FunctionPool

HEAD = "from botgrpo_cli.tasks.own.declare import metric, signal, term\n"


def asked(folder: Path, text: str, name: str, *calls: Call, timeout: float = 10.0) -> list[Any]:
    """Its answers, in order of the calls; without any, of one. The first line of `text` is line 2 of sums.py."""
    path = folder / "sums.py"
    path.write_text(HEAD + text)
    with FunctionPool(str(path), timeout=timeout) as pool:
        return [answer[name] for answer in pool.submit([name], calls or [call()]).result(60)]


def call(text: str = "so it is 4", *, prompt_id: str = "p3", prompt: Any = "2 + 2?", **others: Any) -> Call:
    return Call(prompt_id, prompt, text, **others)


def reason(answer: Answer) -> str:
    assert isinstance(answer, Failure)
    return answer.reason


@contextmanager
def started(folder: Path, text: str, **options: Any) -> Iterator[FunctionPool]:
    """A pool on sums.py, which has `text` from line 2 on."""
    (folder / "sums.py").write_text(f"import os, signal, time\n{text}")
    with FunctionPool(str(folder / "sums.py"), **options) as pool:
        yield pool


def calls(*levels: int) -> list[Call]:
    """One of each level, which is its text and a column too."""
    return [Call(f"p{level}", "?", str(level), {"level": level}) for level in levels]
