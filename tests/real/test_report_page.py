"""The report in a real Chromium, at desktop and phone width."""

from __future__ import annotations

import json
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from botgrpo_cli.report.page import report
from botgrpo_cli.studies.found import find_studies
from botgrpo_cli.tasks.react.browser import find_browser
from botgrpo_cli.tasks.react.toolchain import ensure_toolchain, find_node
from tests.real.test_react_render import needs_browser
from tests.report.test_page import HOSTILE, write_study

pytestmark = [pytest.mark.slow, needs_browser]


def png(width=40, height=30) -> bytes:
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    lines = b"".join(b"\0" + b"\x20\x60\xa0" * width for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def opened(file: Path, *widths: int) -> list[dict]:
    script = Path(__file__).with_name("page_check.mjs")
    command = [find_node(), str(script), str(ensure_toolchain()), find_browser(), str(file), *map(str, widths)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)


def test_the_report_is_whole_at_desktop_and_phone_width(tmp_path):
    for name, figure in (("baselines", "1"), ("bag", "ours")):
        folder = write_study(tmp_path, name, figure)
        for file in (folder / "figure.png", folder / "bot-grpo-seed0" / "shots" / "1.png"):
            file.write_bytes(png())
    page = tmp_path / "report.html"
    page.write_text(report(find_studies(tmp_path)))
    for found in opened(page, 1280, 390):
        assert found["said"] == []
        assert found["outside"] == []
        assert found["scroll"] <= found["inner"]  # nothing hangs out at the side
        assert (found["images"], found["broken"]) == (6, 0)
        assert HOSTILE in found["text"]
        assert "91.7%" in found["text"]
