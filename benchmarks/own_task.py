"""What an own task costs: 64 completions through ten Python functions, beside a training step of the React task.

    python benchmarks/own_task.py [--rounds 9]

Target: under 50 ms. Six terms, a signal on characters and one on lines, a term in batch
form, a metric; completions of 200 tokens. The time is that of `submit`, `gathered` and all
results, from the first submission to the last result: what a run waits for when scoring does not overlap with sampling.
The step is one of `react_qwen` at tiny scale, 8 prompts x 8 rollouts, in the same process and with one thread.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch

from botgrpo_cli.recipe.load import load_recipe
from botgrpo_cli.tasks.base import Completion, Task
from botgrpo_cli.tasks.registry import make_task
from botgrpo_cli.training import engines, run

COMPLETIONS, TOKENS = 64, 200
FUNCTIONS = """
from botgrpo_cli import metric, signal

@signal("characters")
def marks(text):
    return [(i, i + 1, -1.0) for i, character in enumerate(text) if character == "7"]

@signal("lines")
def long(text):
    return [(n, n + 1, -0.5) for n, line in enumerate(text.split("\\n")) if len(line) > 40]

def batch(completions, answer, **columns):
    return [float(str(each) in text) for text, each in zip(completions, answer)]

@metric
def words(text):
    return len(text.split())
"""
FUNCTIONS += "".join(f"def term{n}(text, answer): return float(text.count(str(answer)) > {n})\n" for n in range(6))
WEIGHTS = "{" + ", ".join(f"{name}: 1.0" for name in (*(f"term{n}" for n in range(6)), "marks", "long", "batch")) + "}"


class Quiet:
    def stepped(self, step: int, metrics: dict[str, float]) -> None: ...

    def evaluated(self, step: int, metrics: dict[str, float]) -> None: ...

    def note(self, sentence: str) -> None: ...


def own_task(folder: Path) -> Task:
    (folder / "ten.py").write_text(FUNCTIONS)
    (folder / "ten.jsonl").write_text("".join(f'{{"prompt": "Say {n}.", "answer": {n}}}\n' for n in range(200)))
    (folder / "ten.yaml").write_text(f"task: {{name: ./ten.py, data: ten.jsonl}}\nreward: {WEIGHTS}\n")
    return make_task(load_recipe(folder / "ten.yaml").recipe)


def score(task: Task) -> float:
    """Seconds from the first submission to the last result."""
    prompt = task.prompts("train")[0]
    pieces = tuple(f"word{n} ".encode() if n % 9 else b"\n" for n in range(TOKENS))
    started = time.perf_counter()
    futures = [task.submit(Completion(prompt, pieces, True, tuple(range(TOKENS)))) for _ in range(COMPLETIONS)]
    task.gathered(1)
    for future in futures:
        future.result()
    return time.perf_counter() - started


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--rounds", type=int, default=9)
    rounds = arguments.parse_args().rounds
    torch.set_num_threads(1)
    sets = ["training.threads=1", "evaluation.every=1000"]
    with tempfile.TemporaryDirectory() as folder, own_task(Path(folder)) as task:
        prepared = run.prepare(load_recipe("react_qwen", scale="tiny", sets=sets).recipe, Path(folder) / "run")
        with prepared.task:
            trainer = engines.make_engine("native", prepared).start(Quiet())
            steps, scores = [], []
            score(task)
            trainer.train_step()
            for _ in range(rounds):
                scores.append(score(task))
                started = time.perf_counter()
                trainer.train_step()
                steps.append(time.perf_counter() - started)
    ours, step = statistics.median(scores), statistics.median(steps)
    print(
        f"{COMPLETIONS} completions x 10 functions: {1000 * ours:.1f} ms (target 50), worst {1000 * max(scores):.1f} ms"
    )
    print(f"a training step of react_qwen at tiny scale: {step:.2f} s; ratio {ours / step:.2%}")


if __name__ == "__main__":
    main()
