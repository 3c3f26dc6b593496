"""Finds a Chromium: the one place that knows where one may be."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from botgrpo_cli.errors import InputError

BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")  # the first on the path wins
MACOS_CHROME = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
# In the folders that Playwright downloads, newest first; names differ by version and system.
_PLAYWRIGHT_PROGRAMS = (
    "chromium_headless_shell-*/*/chrome-headless-shell",
    "chromium_headless_shell-*/*/headless_shell",
    "chromium-*/*/chrome",
    "chromium-*/*/*.app/Contents/MacOS/*",
)


@dataclass(frozen=True)
class BrowserStatus:
    """`path` is None when there is none; then `problem` is a sentence and `mend` one command."""

    path: str | None
    problem: str = ""
    mend: str = ""


def browser_status() -> BrowserStatus:
    """Looks at $BOTGRPO_CHROMIUM (which then decides alone), the path, macOS's applications, Playwright's downloads."""
    if own := os.environ.get("BOTGRPO_CHROMIUM"):
        if _is_program(Path(own)):
            return BrowserStatus(own)
        return BrowserStatus(None, f"BOTGRPO_CHROMIUM is '{own}', no program", "unset BOTGRPO_CHROMIUM")
    for name in BROWSERS:
        if path := shutil.which(name):
            return BrowserStatus(path)
    if sys.platform == "darwin" and _is_program(MACOS_CHROME):
        return BrowserStatus(str(MACOS_CHROME))
    if path := _playwrights():
        return BrowserStatus(path)
    mend = (
        "brew install --cask google-chrome" if sys.platform == "darwin" else "apt-get install chromium-headless-shell"
    )
    return BrowserStatus(None, "No Chromium was found", mend)


def find_browser() -> str:
    """Path of a Chromium. Raises InputError, which says how to get one."""
    status = browser_status()
    if status.path is None:
        raise InputError(
            f"{status.problem}; drawing components needs one. Run `make setup` in the checkout, or `{status.mend}`, "
            "or set BOTGRPO_CHROMIUM to a Chromium or Chrome."
        )
    return status.path


@cache
def browser_version(path: str) -> str:
    """`156.0.8078.108`, or "unknown" when it does not say."""
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    found = re.search(r"\d+(?:\.\d+)+", said)
    return found[0] if found else "unknown"


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _playwrights() -> str | None:
    """A Chromium that Playwright has downloaded."""
    caches = "Library/Caches" if sys.platform == "darwin" else ".cache"
    root = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / caches / "ms-playwright")

    def build(path: Path) -> int:
        number = path.relative_to(root).parts[0].rpartition("-")[2]
        return int(number) if number.isdigit() else 0

    for pattern in _PLAYWRIGHT_PROGRAMS:
        programs = [path for path in root.glob(pattern) if _is_program(path)]
        if programs:
            return str(max(programs, key=build))
    return None
