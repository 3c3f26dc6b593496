"""Modules of environments, which tests write where verifiers finds them."""

from __future__ import annotations

SUMS = '''
import verifiers as vf
from datasets import Dataset


def rows(first, count):
    return Dataset.from_list(
        [{"question": f"{n} + 1?", "answer": str(n + 1), "info": {"n": n, "parts": [n, 1]}, "hard": n > 5}
         for n in range(first, first + count)]
    )


async def solved(parser, completion, answer) -> float:
    """Whether the answer is right.

    More of it."""
    return float(parser.parse_answer(completion) == answer)


def short(completion, info, hard, prompt, state, finished=None):
    """As short as it can be."""
    assert (prompt[-1]["role"], state["prompt"], state["completion"]) == ("user", prompt, completion)
    assert (state["is_truncated"], len(state["trajectory"])) == (not finished, 1)
    return -len(completion[-1]["content"]) - info["n"] - (100 if hard else 0)


def everything(**given):
    return given["state"]["answer"] == given["answer"] == given["task"]["answer"]


def remembers(state):
    state["seen"] = state.get("seen", 0) + 1
    return state["seen"]


class Reads:
    def __call__(self, state):
        return state["seen"]


def load_environment(count=8, held_out=0, system="Answer in <answer>."):
    parser = vf.XMLParser(["answer"], answer_field="answer")
    first = vf.Rubric(funcs=[solved, short], weights=[1.0, -0.5], parser=parser)
    second = vf.Rubric(funcs=[solved, remembers], weights=[0.25, 0.0], parser=parser)
    second.add_metric(everything)
    second.add_reward_func(Reads())
    return vf.SingleTurnEnv(
        dataset=rows(0, count),
        eval_dataset=rows(100, held_out) if held_out else None,
        system_prompt=system,
        parser=parser,
        rubric=vf.RubricGroup([first, vf.RubricGroup([second])]),
    )
'''

GROUP = """

def rank(states, completions, answers, infos, prompts) -> list[float]:
    assert [state["answer"] for state in states] == answers == [str(info["n"] + 1) for info in infos]
    assert len({prompt[-1]["content"] for prompt in prompts}) == 1
    longest = max(len(completion[-1]["content"]) for completion in completions)
    return [float(len(completion[-1]["content"]) == longest) for completion in completions]


async def several(completions, **given):
    return [float(len(completions))] * len(completions)


def load_environment():
    return vf.SingleTurnEnv(dataset=rows(0, 3), rubric=vf.Rubric(funcs=[rank, several], weights=[0.5, 0.0]))
"""
