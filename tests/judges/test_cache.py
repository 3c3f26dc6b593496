"""Replies are paid for once: what shares a reply, what does not, several processes, a broken file."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from botgrpo_cli.errors import InputError
from botgrpo_cli.judges.base import Image
from botgrpo_cli.judges.cache import ReplyCache, Stored, cache_file, reply_key
from tests.judges.asks import GOOD, GOOD_TEXT, ask
from tests.judges.server import chat, error

SENDER = {"kind": "openai", "address": "http://a/v1", "model": "m", "served": "m", "rung": "prompt", "temperature": 0.0}


def test_the_same_step_again_makes_no_call(judge_for, server):
    judge = judge_for()
    server.answering = lambda request: chat(GOOD_TEXT)
    asks = [ask(f"{number}") for number in range(5)]
    first = [judge.ask(each) for each in asks]
    judge.counters()
    again = [judge.submit(each).result() for each in asks]
    assert [reply.value for reply in again] == [reply.value for reply in first]
    assert all(reply.cached and reply.seconds == 0 for reply in again)
    assert len(server.requests) == 5
    counted = judge.counters()
    assert (counted["cache_hits"], counted["calls"], counted["prompt_tokens"]) == (5, 0, 0)
    assert counted["seconds_p50"] is None


def test_another_judge_of_the_same_server_finds_the_reply(judge_for, server):
    judge_for().ask(ask())
    other = judge_for()
    assert other.ask(ask()).cached
    assert server.requests == []


@pytest.mark.parametrize("keys", [{"model": "x"}, {"temperature": 0.5}, {"temperature": None}, {"max_tokens": 9}])
def test_another_model_or_parameter_asks_again(judge_for, server, keys):
    judge_for().ask(ask())
    assert not judge_for(**keys).ask(ask()).cached


def test_without_a_cache_nothing_is_kept_or_shared(judge_for, server):
    judge = judge_for(cache=False)
    judge.ask(ask())
    assert not judge.ask(ask()).cached
    assert len(server.requests) == 2
    assert not cache_file().exists()


@pytest.mark.parametrize(
    "failing",
    [lambda: chat("no JSON"), lambda: chat("", finish="content_filter"), lambda: error(503)],
    ids=["malformed", "refused", "transport_failed"],
)
def test_only_what_is_ok_is_kept(judge_for, server, failing):
    judge = judge_for(tries=2)
    server.script += [failing(), failing()]
    assert judge.ask(ask()).outcome != "ok"
    server.script.clear()
    server.answering = lambda request: chat(GOOD_TEXT)
    reply = judge.ask(ask())
    assert (reply.outcome, reply.cached) == ("ok", False)


def test_a_kept_reply_that_a_stricter_check_refuses_is_asked_for_again(judge_for, server):
    judge = judge_for()
    server.answering = lambda request: chat(GOOD_TEXT)
    judge.ask(ask())
    server.answering = lambda request: chat('{"score": 9, "side": "A"}')

    def strict(value: dict) -> None:
        if value["score"] < 9:
            raise ValueError("score: expected 9.")

    assert judge.ask(ask(check=strict)).value["score"] == 9
    assert judge.ask(ask(check=strict)).cached, "the new reply has taken the place of the old one"


def test_everything_that_shapes_a_reply_is_in_the_key():
    picture, other = Image(b"a"), Image(b"b")
    asks = [
        ask(),
        ask("Another text."),
        ask(system="You are strict."),
        ask(template="test/2"),
        *(ask(round=number) for number in (1, 2, 3)),
        ask(schema={"type": "object"}),
        ask("Which one?", picture),
        ask("Which one?", other),
        ask("Which one?", Image(b"a", "image/jpeg")),
        ask("Which one?", picture, other),
        ask("Which one?", other, picture),
        ask(parts=("Which ", "one?")),
        ask(parts=(picture, "Which one?")),
    ]
    keys = [reply_key(SENDER, each) for each in asks]
    keys += [reply_key({**SENDER, name: "other"}, ask()) for name in SENDER]
    assert len(set(keys)) == len(keys)
    assert reply_key(dict(reversed(SENDER.items())), ask(check=print)) == keys[0]


def test_a_row_comes_back_as_it_was(tmp_path):
    stored = Stored({"a": [1, None, "\u2028 ü"], "b": 0.5}, "text \U0001f600", None, 7)
    cache = ReplyCache(tmp_path / "folder" / "replies.sqlite")
    assert cache.get("k") is None
    cache.put("k", stored)
    cache.close()
    again = ReplyCache(tmp_path / "folder" / "replies.sqlite")
    assert again.get("k") == stored
    again.close()


WRITER = """
import sys
from pathlib import Path
from botgrpo_cli.judges.cache import ReplyCache, Stored
cache = ReplyCache(Path(sys.argv[1]))
for number in range(100):
    cache.put(f"shared-{number}", Stored({"n": number}, sys.argv[2], 1, 2))
    cache.put(f"{sys.argv[2]}-{number}", Stored({"n": number}, sys.argv[2], 1, 2))
"""


@pytest.mark.slow
def test_several_processes_open_a_new_file_and_write_at_once(tmp_path):
    file = tmp_path / "replies.sqlite"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, file, name], stderr=subprocess.PIPE, text=True)
        for name in ("one", "two", "three")
    ]
    assert [writer.communicate()[1] for writer in writers] == ["", "", ""]
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT count(*) FROM replies").fetchone() == (400,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_file_that_is_no_cache_is_wrong_input(tmp_path):
    file = tmp_path / "replies.sqlite"
    file.write_text("This is a letter, not a database, and longer than a hundred bytes. " * 3)
    with pytest.raises(InputError, match=r"replies\.sqlite cannot be opened: .* judge\.cache to false"):
        ReplyCache(file)


def test_a_table_with_other_columns_is_wrong_input(tmp_path):
    with sqlite3.connect(tmp_path / "replies.sqlite") as connection:
        connection.execute("CREATE TABLE replies (key TEXT)")
    with pytest.raises(InputError, match="no such column"):
        ReplyCache(tmp_path / "replies.sqlite")


def test_a_file_that_fails_later_costs_the_cache_and_not_the_run(tmp_path):
    said = []
    cache = ReplyCache(tmp_path / "replies.sqlite", said.append)
    with sqlite3.connect(tmp_path / "replies.sqlite") as connection:
        connection.execute("DROP TABLE replies")
    assert cache.get("k") is None
    cache.put("k", Stored(GOOD, json.dumps(GOOD), 1, 1))
    assert len(said) == 1
    assert "going on without it" in said[0]


def test_the_file_lies_in_the_cache_folder(tmp_path):
    assert cache_file() == Path(tmp_path / "cache" / "judge" / "replies.sqlite")
