"""A single-turn environment of verifiers: small sums in words. Nothing in it knows of botgrpo."""

from __future__ import annotations

import random
import re

import verifiers as vf
from datasets import Dataset

SYSTEM = "You answer questions with one number."
THINGS = ("apples", "books", "coins", "eggs", "pens", "shells")
NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn")


def problems(count: int, seed: int) -> Dataset:
    draw, rows = random.Random(seed), {}
    while len(rows) < count:
        a, b = draw.randint(2, 9), draw.randint(2, 9)
        name, thing = draw.choice(NAMES), draw.choice(THINGS)
        rows[f"{name} has {a} {thing} and gets {b} more. How many {thing} does {name} have now?"] = str(a + b)
    return Dataset.from_list([{"question": question, "answer": answer} for question, answer in rows.items()])


def load_environment(train: int = 160, held_out: int = 40) -> vf.Environment:
    parser = vf.Parser(lambda text: re.findall(r"\d+", text))

    def correct(completion, answer, parser) -> float:
        """Whether the last number is the sum."""
        return float((parser.parse_answer(completion) or [""])[-1] == answer)

    def brief(completion) -> float:
        """1 for an answer of at most 40 characters, less for a longer one."""
        return min(1.0, 40 / max(1, len(completion[-1]["content"])))

    every = problems(train + held_out, seed=0)
    return vf.SingleTurnEnv(
        dataset=every.select(range(train)),
        eval_dataset=every.select(range(train, train + held_out)),
        system_prompt=SYSTEM,
        parser=parser,
        rubric=vf.Rubric(funcs=[correct, brief], weights=[1.0, 0.2], parser=parser),
    )
