from __future__ import annotations

from collections.abc import Iterator

import pytest

from botgrpo_cli.tasks.react.workers import ReactChecker


@pytest.fixture(scope="package")
def checker() -> Iterator[ReactChecker]:
    with ReactChecker(1, timeout=60.0) as pool:
        yield pool
