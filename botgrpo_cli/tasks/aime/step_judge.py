"""The step judge over a model: each step of a solution correct, incorrect or uncertain, a window a call (paper).

The prompt is our choice. What becomes of the verdicts is in `tasks.aime.verdicts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial

from botgrpo_cli.futures import then
from botgrpo_cli.judges.base import Ask, Judge, Reply
from botgrpo_cli.judges.prompting import fenced, template
from botgrpo_cli.tasks.aime.verdicts import VERDICTS, AskSteps, Step, StepReply, Verdict

SCHEMA = {
    "type": "object",
    "properties": {
        "steps": {
            "type": "array",
            "items": {
                "type": "object",
                # The reason comes first: a model that writes it before the verdict has thought before it judges.
                "properties": {
                    "id": {"type": "integer", "minimum": 1},
                    "why": {"type": "string"},
                    "verdict": {"type": "string", "enum": list(VERDICTS)},
                },
                "required": ["id", "why", "verdict"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["steps"],
    "additionalProperties": False,
}


class ModelStepJudge:
    """Makes the `AskSteps` of a problem; every call goes to `judge`."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def about(self, problem: str) -> AskSteps:
        """Judges steps of solutions to `problem`, the text that the policy was given."""
        return partial(self._submit, problem)

    def _submit(
        self, problem: str, window: Sequence[Step], so_far: Sequence[Step], own: Mapping[int, Verdict]
    ) -> Future[StepReply]:
        return then(self._judge.submit(step_ask(problem, window, so_far, own)), step_reply)


def step_ask(problem: str, window: Sequence[Step], so_far: Sequence[Step], own: Mapping[int, Verdict]) -> Ask:
    """The call about one window. Each step stands between delimiters of its own, with its id before them."""
    words = template("steps")
    earlier = "\n\n".join(_shown(step, own.get(step.id)) for step in so_far)
    return Ask(
        system=words.system,
        parts=words.parts(
            problem=problem,
            earlier=earlier or "There are none: the solution starts with the steps below.",
            window="\n\n".join(_shown(step) for step in window),
            ids=", ".join(str(step.id) for step in window),
        ),
        schema=SCHEMA,
        template=words.name,
    )


def step_reply(reply: Reply) -> StepReply:
    """The entries of a reply, one by one: an unusable entry must not spoil the others, so none is checked here."""
    if reply.outcome != "ok" or reply.value is None:
        return StepReply(reply.outcome, text=reply.text)
    entries = [entry if isinstance(entry, dict) else {} for entry in reply.value["steps"]]
    return StepReply("ok", tuple((entry.get("id"), entry.get("verdict")) for entry in entries), reply.text)


def _shown(step: Step, verdict: Verdict | None = None) -> str:
    said = f" (your verdict: {verdict})" if verdict else ""
    return f"Step {step.id}{said}:\n{fenced(step.text, 'STEP')}"
