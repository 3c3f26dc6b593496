"""React code that the real-tool tests share."""

from __future__ import annotations

from pathlib import Path

from botgrpo_cli.tasks.base import Completion, Prompt

GOOD = """\
import { useState } from 'react';

export default function Counter() {
  const [count, setCount] = useState(0);
  return <button onClick={() => setCount(count + 1)}>{count}</button>;
}
"""

# Thousands of equal keys, just under the size limit: a lint rule compares each with each, for minutes.
ENDLESS = "export default () => <p style={{" + "a:1," * 15_900 + "}} />;"


def distinct(number: int) -> str:
    """A good component that no other test has sent, nor will be served from the cache."""
    return GOOD.replace("Counter", f"Counter{number}")


def completion(text: str, finished: bool = True) -> Completion:
    """One token a byte, then an end token when finished."""
    pieces = tuple(bytes([byte]) for byte in text.encode("utf-8", "replace"))
    return Completion(Prompt("p", "brief", "easy"), pieces + (b"",) * finished, finished)


def group_members(group: int) -> list[int]:
    """Live processes of a process group (zombies left out)."""
    members = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, owner = status.read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):  # gone meanwhile
            continue
        if int(owner) == group and state != "Z":
            members.append(int(status.parent.name))
    return members
