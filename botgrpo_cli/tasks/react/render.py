"""Drawing compiled components in headless Chromium: picture, facts about what is visible, messages, blank or not.

Each of the pool's Node processes drives a browser of its own, one sample at a time, so that a sample that brings its
browser down takes no other with it. The code of a sample runs in the browser, without network, storage or files.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import psutil

from botgrpo_cli.errors import RunError
from botgrpo_cli.tasks.react.browser import browser_version, find_browser
from botgrpo_cli.tasks.react.pool import NodePool
from botgrpo_cli.tasks.react.process import NODE_FLAGS, BootFailed, NodeProcess, isolation
from botgrpo_cli.tasks.react.toolchain import RENDERER, ensure_toolchain, find_node, locked_versions

CACHED_RESULTS = 512
LARGEST_CACHED = 200_000  # bytes of a picture; those of good components have 10,000 to 100,000
# kB of writable memory for each process of the browser. Not the address space, of which V8 reserves a terabyte.
MEMORY_LIMIT = 1_000_000
PATIENCE = 15  # times the limit of a sample, by the clock
SPARE_SECONDS = 60.0  # for pages that must be replaced
SAMPLES_PER_PAGE = 50  # then a new one, so that nothing piles up in it
# What the browser needs of the environment; keys and tokens are not in it.
_PASSED = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "FONTCONFIG_FILE", "FONTCONFIG_PATH", "XDG_DATA_DIRS")


@dataclass(frozen=True)
class Probe:
    """What is visible: on the screen, large enough, not transparent, of another colour than what is behind it.

    Decided from the DOM, looked at from outside the sample's own world, and from the picture.
    """

    text: str = ""  # visible text, white space collapsed, at most 5,000 characters; values of fields included
    controls: int = 0  # visible buttons, inputs, selects, textareas, links with an address
    live_controls: int = 0  # of these, those that do something when used
    images: int = 0  # visible img, svg, canvas
    filled: float = 0.0  # share of the picture that is not of the page's background, the colour along its edge
    colours: int = 0  # distinct colours, five bits a channel
    dominant: float = 0.0  # share of the most frequent colour
    contrast: float = 0.0  # share of the visible characters with a contrast of at least 4.5 (WCAG)
    aligned: float = 0.0  # share of the blocks with content whose left edge is another's too, within a pixel
    elements: int = 0  # in the page, without the root
    overflow: float = 0.0  # share of the blocks with content that reach beyond the left or right edge


@dataclass(frozen=True)
class Rendered:
    """One sample. `drawn` shows something, whatever it threw; `error` threw and shows nothing; `blank` shows nothing.

    `timeout` took longer than its limit; `crashed` took its page or its browser down, most likely out of memory.
    """

    outcome: Literal["drawn", "blank", "error", "timeout", "crashed"]
    why: str = ""  # one sentence, "" when drawn
    screenshot: bytes | None = None  # PNG, 1024 x 768; None when there is none (timeout, crashed)
    probe: Probe = field(default_factory=Probe)  # all zero when not drawn
    console: tuple[str, ...] = ()  # at most 50, "level: message", cut to 300 characters
    errors: tuple[str, ...] = ()  # uncaught, at most 50, cut to 300 characters
    seconds: float = 0.0


@cache
def _nests(isolated: tuple[str, ...]) -> bool:
    """Can the superuser's browser have its sandbox, which is a user namespace in that of `isolated`?"""
    if not isolated:
        return False
    return subprocess.run([*isolated, "unshare", "--user", "true"], capture_output=True, check=False).returncode == 0


class _Browser(NodeProcess):
    """A Node process with its Chromium, which is in a process group of its own, and their temporary folder."""

    def __init__(self, node: str, toolchain: str, chromium: str, seconds: float) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="botgrpo-render-", ignore_cleanup_errors=True)
        user = os.geteuid() or 1000  # Chromium's sandbox is not for the superuser, so it sees another
        words = isolation(user)
        limit = ("sh", "-c", f'ulimit -d {MEMORY_LIMIT}; exec "$@"', "sh") if sys.platform == "linux" else ()
        sandbox = os.geteuid() != 0 or _nests(words)
        settings = {"browser": chromium, "sandbox": sandbox, "samples": SAMPLES_PER_PAGE}
        settings |= {"seconds": seconds, "patience": PATIENCE, "folder": self._folder.name}
        environment = {name: os.environ[name] for name in _PASSED if name in os.environ}
        environment |= {"GOMAXPROCS": "1", "TMPDIR": self._folder.name, "HOME": self._folder.name}
        command = [*limit, *words, node, *NODE_FLAGS, str(RENDERER), toolchain, json.dumps(settings)]
        super().__init__(command, environment, tools="The renderer")
        self._leader: psutil.Process | None = None

    def await_ready(self) -> None:
        super().await_ready()
        if self._leader is None:
            # Its leader may be a script in front of the browser.
            with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
                self._leader = psutil.Process(os.getpgid(self.greeting["browser"]))

    def kill(self) -> None:
        """Ends Node and the browser, and removes their folder."""
        family: list[psutil.Process] = []
        if self._process.returncode is None:  # else its id may be another's by now
            with contextlib.suppress(psutil.NoSuchProcess):
                family = psutil.Process(self.pid).children(recursive=True)
        super().kill()
        # The group is still the browser's when its first process has ended but others of it have not.
        if self._leader is not None and (self._leader.is_running() or not psutil.pid_exists(self._leader.pid)):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._leader.pid, signal.SIGKILL)
            family.append(self._leader)
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(family, timeout=5)
        self._folder.cleanup()


def _result(answer: dict[str, Any]) -> Rendered:
    drawn = answer["outcome"] == "drawn"
    return Rendered(
        outcome=answer["outcome"],
        why=" ".join(answer["why"].split())[:400],
        screenshot=base64.b64decode(answer["screenshot"]) if answer["screenshot"] else None,
        probe=Probe(**answer["probe"]) if drawn else Probe(),
        console=tuple(answer["console"]),
        errors=tuple(answer["errors"]),
        seconds=answer["seconds"],
    )


class ReactRenderer(NodePool[Rendered]):
    """Draws components on `pages` pages at once; results are remembered by the hash of the code.

    `timeout` is in seconds of the browser's work for a sample, so that a busy machine fails none; by the clock it is
    at most fifteen times that. Raises InputError when there is no browser or no Node, or the toolchain can't be
    installed. Use it as a context manager, or call `close`. Thread-safe.
    """

    title = "React renderer"

    def __init__(self, *, pages: int = 2, timeout: float = 2.0, progress: Callable[[str], None] | None = None) -> None:
        super().__init__(pages, CACHED_RESULTS)
        self._chromium = find_browser()
        self._toolchain = ensure_toolchain(progress)
        self._node = find_node()
        self._timeout = timeout
        self.begin()

    def submit(self, code: str, language: str = "jsx") -> Future[Rendered]:
        """Draws code that compiles (code that does not is an `error`); the same future for the same code.

        `language` is the one that the checker found; TypeScript is recognised anyway. The future raises RunError when
        the browser does not start or draws nothing at all.
        """
        return self._submit(code, language)

    def versions(self) -> dict[str, str]:
        """For the manifest: the browser's and those of the packages that only drawing uses."""
        return {"chromium": browser_version(self._chromium), **locked_versions("playwright-core", "tailwindcss")}

    def _spawn(self) -> NodeProcess:
        return _Browser(self._node, str(self._toolchain), self._chromium, self._timeout)

    def _ask(self, process: NodeProcess, code: str, language: str) -> Rendered:
        return _result(process.ask({"code": code, "language": language}, PATIENCE * self._timeout + SPARE_SECONDS))

    def _given_up(self) -> Rendered:
        return Rendered("crashed", "It brought the browser down twice.")

    def _worth_keeping(self, result: Rendered) -> bool:
        # What failed may have done so for want of time or memory; pictures of noise are large.
        fate = result.outcome in ("drawn", "blank", "error")
        return fate and len(result.screenshot or b"") <= LARGEST_CACHED

    def _does_not_start(self, problem: BootFailed) -> RunError:
        return RunError(
            f"The browser that draws components does not start ({problem}). It is '{self._chromium}'; set "
            "BOTGRPO_CHROMIUM to another one, or switch off what needs pictures."
        )
