"""The pool of Node processes that compile and lint.

Tools that are broken for every sample (ESLint silent, Node that won't boot) are a RunError. The code of a sample is
parsed and bundled, never executed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal

from botgrpo_cli.errors import RunError
from botgrpo_cli.tasks.react.pool import NodePool
from botgrpo_cli.tasks.react.process import NODE_FLAGS, BootFailed, NodeProcess, isolation
from botgrpo_cli.tasks.react.toolchain import SETUP_COMMAND, WORKER, ensure_toolchain, find_node

CACHED_RESULTS = 8192


@dataclass(frozen=True)
class Diagnostic:
    """One finding. `line` is 0-based in the checked code, None when no line is to blame."""

    line: int | None
    rule: str
    message: str
    severity: Literal["error", "warning"] = "error"


@dataclass(frozen=True)
class CheckResult:
    """What the tools say of one file. It compiles when `errors` is empty and it did not crash."""

    errors: tuple[Diagnostic, ...] = ()  # of the compiler, sorted by line
    findings: tuple[Diagnostic, ...] = ()  # of ESLint
    parsed: bool = False  # ESLint could read it
    markup: bool = False  # there is JSX in it
    language: str = "jsx"  # the grammar that fits: jsx or tsx
    crashed: bool = False  # two workers died or ran out of time over it

    @property
    def compiled(self) -> bool:
        return not self.errors and not self.crashed


def _result(answer: dict[str, Any]) -> CheckResult:
    def diagnostics(key: str) -> tuple[Diagnostic, ...]:
        return tuple(
            Diagnostic(None if f["line"] is None else f["line"] - 1, f["rule"], f["message"], f["severity"])
            for f in answer[key]
        )

    errors, findings = diagnostics("errors"), diagnostics("findings")
    return CheckResult(errors, findings, answer["parsed"], answer["markup"], answer["language"])


class ReactChecker(NodePool[CheckResult]):
    """Checks code in `workers` Node processes; results are remembered by the hash of the code.

    Processes start at once and boot in parallel; `timeout` is in seconds a sample and try. Raises InputError when
    Node is missing or the toolchain can't be installed. Use it as a context manager, or call `close`.
    """

    title = "React checker"

    def __init__(self, workers: int, timeout: float, progress: Callable[[str], None] | None = None) -> None:
        super().__init__(workers, CACHED_RESULTS)
        self._toolchain = ensure_toolchain(progress)
        self._node = find_node()
        self._timeout = timeout
        self.begin()

    def submit(self, code: str) -> Future[CheckResult]:
        """The result of `code`; the same future for the same code, so it must not be cancelled.

        The future raises RunError when the tools themselves are broken.
        """
        return self._submit(code, "jsx")

    def _spawn(self) -> NodeProcess:
        command = [*isolation(), self._node, *NODE_FLAGS, str(WORKER), str(self._toolchain)]
        return NodeProcess(command, {**os.environ, "GOMAXPROCS": "1", "NODE_OPTIONS": ""})

    def _ask(self, process: NodeProcess, code: str, language: str) -> CheckResult:
        return _result(process.ask({"code": code}, self._timeout))

    def _given_up(self) -> CheckResult:
        return CheckResult(crashed=True)

    def _does_not_start(self, problem: BootFailed) -> RunError:
        return RunError(
            f"The Node worker that compiles and lints does not start ({problem}). If its packages were damaged, "
            f"delete '{self._toolchain}' and run `{SETUP_COMMAND}`."
        )
