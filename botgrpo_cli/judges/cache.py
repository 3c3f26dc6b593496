"""Replies that were paid for once: a sqlite file in the cache folder, shared by every run and process.

Only outcomes that are ok are kept. The key is a hash of everything that shapes a reply, so that a changed prompt,
model or parameter asks again.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botgrpo_cli.cache import Notify, cache_root, locked, make_folder
from botgrpo_cli.errors import InputError
from botgrpo_cli.judges.base import Ask

FORMAT = 1  # raised when the meaning of the key or of a row changes; old rows are then never found
BUSY = 30.0  # seconds that a writer waits for another process

_TABLE = """CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY, value TEXT NOT NULL, text TEXT NOT NULL, prompt_tokens INTEGER, completion_tokens INTEGER
) WITHOUT ROWID"""


def cache_file() -> Path:
    """Where replies are kept; the file is made when a judge is."""
    return cache_root() / "judge" / "replies.sqlite"


def reply_key(sender: Mapping[str, Any], ask: Ask) -> str:
    """A hash over the sender (provider, address, model, rung, every sampling parameter) and the whole of `ask`.

    Images count by their own hash, and so do their media types; `ask.check` does not count.
    """
    parts = [
        ["text", part] if isinstance(part, str) else [part.media_type, hashlib.sha256(part.data).hexdigest()]
        for part in ask.parts
    ]
    whole = {
        "format": FORMAT,
        "sender": dict(sender),
        "system": ask.system,
        "parts": parts,
        "schema": ask.schema,
        "template": ask.template,
        "round": ask.round,
    }
    return hashlib.sha256(json.dumps(whole, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@dataclass(frozen=True)
class Stored:
    """A reply that was ok, and what it cost then."""

    value: dict
    text: str
    prompt_tokens: int | None
    completion_tokens: int | None


class ReplyCache:
    """The file, open. Safe for several threads and processes. A disk that fails later costs the cache, not the run."""

    def __init__(self, file: Path, say: Notify = lambda _: None) -> None:
        """Raises InputError when the file cannot be opened, or is no cache."""
        self.file, self._say = file, say
        self._lock = threading.Lock()
        make_folder(file.parent)
        connection = None
        try:
            # Two processes that switch a new file to WAL at once get "locked" whatever the time-out is.
            with locked(file, say):
                connection = sqlite3.connect(file, timeout=BUSY, check_same_thread=False, isolation_level=None)
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=NORMAL")  # a crash of the machine may lose the last replies
                connection.execute(_TABLE)
                connection.execute("SELECT value, text, prompt_tokens, completion_tokens FROM replies LIMIT 1")
        except (sqlite3.Error, OSError) as error:
            if connection is not None:
                connection.close()
            raise InputError(
                f"The cache of replies {file} cannot be opened: {error}. Remove it, or set judge.cache to false."
            ) from error
        self._connection: sqlite3.Connection | None = connection

    def get(self, key: str) -> Stored | None:
        rows = self._run("SELECT value, text, prompt_tokens, completion_tokens FROM replies WHERE key = ?", (key,))
        return Stored(json.loads(rows[0][0]), *rows[0][1:]) if rows else None

    def put(self, key: str, stored: Stored) -> None:
        """Keeps `stored` in place of what is there: a row that `get` gave may have been refused by a stricter check."""
        row = (key, json.dumps(stored.value), stored.text, stored.prompt_tokens, stored.completion_tokens)
        self._run("INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?, ?)", row)

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _run(self, statement: str, values: tuple) -> list[tuple]:
        with self._lock:
            if self._connection is None:
                return []
            try:
                return self._connection.execute(statement, values).fetchall()
            except sqlite3.Error as error:
                self._connection.close()
                self._connection = None
                self._say(f"The cache of replies {self.file} failed ({error}); going on without it.")
                return []
