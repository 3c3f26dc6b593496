"""One call of the code judge, as a run would make it: a component with a dead button, which a judge should see."""

from __future__ import annotations

from botgrpo_cli.judges.base import Judge, Reply
from botgrpo_cli.tasks.base import Prompt
from botgrpo_cli.tasks.react.judges.code import code_ask, code_verdict

BRIEF = "A counter: the current count, a button that adds one, and a button that sets it back to zero."
COMPONENT = """\
import { useState } from 'react';

export default function App() {
  const [count, setCount] = useState(0);
  return (
    <main className="p-4">
      <h1>Counter</h1>
      <p>Count: {count}</p>
      <button onClick={() => setCount(count + 1)}>Add one</button>
      <button>Reset</button>
    </main>
  );
}"""


def ask_sample(judge: Judge) -> tuple[Reply, str]:
    """The reply, and what it says in words; "" when it says nothing that can be used."""
    reply = judge.ask(code_ask(Prompt("setup", BRIEF, "easy"), COMPONENT, lines=True))
    if reply.outcome != "ok":
        return reply, ""
    verdict = code_verdict(reply, COMPONENT)
    blamed = ", ".join(f"line {blame.line + 1} ({blame.impact:.1f})" for blame in verdict.lines) or "no line"
    return reply, f"a counter whose reset button does nothing scores {verdict.score:.2f}; blamed: {blamed}"
