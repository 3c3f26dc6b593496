"""The step judge that knows the truth: generated chains of operations, checked to the digit, no model asked.

Every record made with it says `exact`; with a seeded share of turned verdicts it says `simulated`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Literal

from botgrpo_cli.futures import ready
from botgrpo_cli.judges.simulate import EXACT, Errors
from botgrpo_cli.tasks.aime.verdicts import AskSteps, Step, StepReply, Verdict
from botgrpo_cli.tiny.chains import Chain, read_problem, verify


class ExactStepJudge:
    """Makes the `AskSteps` of a problem of `tiny.chains`; answers at once.

    `errors.flip` is the share of verdicts that are turned round, drawn from the seed, the problem and the solution up
    to the step, so that the same step always gets the same verdict whatever the window. `against` as in
    `tiny.chains.verify`. `read` and `check` are for generated problems with other texts (`tasks.aime.words`).
    """

    def __init__(
        self,
        errors: Errors = EXACT,
        *,
        against: Literal["chain", "written"] = "chain",
        read: Callable[[str], Chain] = read_problem,
        check: Callable[..., list[Verdict]] = verify,
    ) -> None:
        self._errors, self._against, self._read, self._check = errors, against, read, check

    @property
    def label(self) -> str:
        return "simulated" if self._errors.flip else "exact"

    def about(self, problem: str) -> AskSteps:
        """Judges steps of solutions to `problem`. ValueError when it holds no chain of operations."""
        return partial(self._answer, self._read(problem))

    def _answer(
        self, chain: Chain, window: Sequence[Step], so_far: Sequence[Step], own: Mapping[int, Verdict]
    ) -> Future[StepReply]:
        steps = [*so_far, *window]
        verdicts = self._check(chain, [step.text for step in steps], against=self._against)
        pairs = [
            (step.id, self._said(chain, steps[: step.id], verdict))
            for step, verdict in zip(window, verdicts[len(so_far) :], strict=True)
        ]
        return ready(StepReply("ok", tuple(pairs), self.label))

    def _said(self, chain: Chain, steps: Sequence[Step], verdict: Verdict) -> Verdict:
        if not self._errors.flip or not self._errors.flips("step", repr(chain), *(step.text for step in steps)):
            return verdict
        return "incorrect" if verdict == "correct" else "correct"
