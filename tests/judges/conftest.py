"""A judge's server and a judge that asks it, without waiting and without anyone else's environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from botgrpo_cli.judges.client import JudgeClient, make_judge
from botgrpo_cli.judges.retry import Patience
from botgrpo_cli.recipe.schema import JudgeConfig
from tests.judges.server import Server, running


@pytest.fixture(autouse=True)
def no_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOTGRPO_CACHE", str(tmp_path / "cache"))
    for name in ("BOTGRPO_JUDGE_URL", "BOTGRPO_JUDGE_MODEL", "BOTGRPO_JUDGE_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as started:
        yield started


class NoWait(Patience):
    """Records what would have been waited; chance always takes the upper bound."""

    def __init__(self, tries: int = 6) -> None:
        self.waited: list[float] = []
        super().__init__(tries, wait=self.waited.append, uniform=lambda low, high: high)


@pytest.fixture
def judge_for(server: Server) -> Iterator[Callable[..., JudgeClient]]:
    """Makes probed judges; the probe's requests are forgotten, and `judge.patience.waited` is what was waited since."""
    made = []

    def make(*, probe_with=None, **keys: object) -> JudgeClient:
        config = JudgeConfig(**{"kind": "openai", "url": server.url, "model": "named-model", **keys})
        patience = NoWait(config.tries)
        before, server.answering = server.answering, probe_with or server.answering
        judge = make_judge(config, patience=patience)
        server.answering = before
        assert isinstance(judge, JudgeClient)
        judge.patience, judge.probe_waits = patience, list(patience.waited)
        patience.waited.clear()
        server.requests.clear()
        server.headers.clear()
        made.append(judge)
        return judge

    yield make
    for judge in made:
        judge.close()
