from __future__ import annotations

from random import Random

import pytest

from botgrpo_cli.judges.simulate import Errors
from botgrpo_cli.rewards.steps import split_steps, step_texts
from botgrpo_cli.tasks.aime.exact import ExactStepJudge
from botgrpo_cli.tasks.aime.verdicts import judge_steps
from botgrpo_cli.tiny import chain_damage, chains


def completions(count: int) -> list[tuple[chains.Task, list[str]]]:
    rng = Random(0)
    made = []
    for task in chains.tasks("train")[:count]:
        data = chain_damage.damage(rng, task.chain, 0.2)[0].encode()
        made.append((task, step_texts([data], split_steps(data))))
    return made


@pytest.mark.parametrize("window", [1, 3, 5])
@pytest.mark.parametrize("flip", [0.0, 0.2])
def test_verdicts_and_scores_do_not_depend_on_the_window(window, flip):
    judge = ExactStepJudge(Errors(seed=1, flip=flip))
    for task, texts in completions(60):
        ask = judge.about(f"Solve:\n{task.prompt.text}")
        found = judge_steps(texts, ask, window=window, strategy="independent").result(timeout=5)
        if not flip:
            assert found.verdicts == chains.verify(task.chain, texts)
        one = judge_steps(texts, ask, window=1, strategy="independent").result(timeout=5)
        assert found.verdicts == one.verdicts
        propagated = [judge_steps(texts, ask, window=w).result(timeout=5).scores for w in (1, window)]
        assert propagated[0] == propagated[1]


def test_the_share_of_turned_verdicts_is_flip_and_the_label_says_so():
    exact, noisy = ExactStepJudge(), ExactStepJudge(Errors(seed=1, flip=0.1))
    assert (exact.label, noisy.label) == ("exact", "simulated")
    turned = steps = 0
    for task, texts in completions(300):
        pair = [judge_steps(texts, j.about(task.prompt.text), strategy="independent").result() for j in (exact, noisy)]
        turned += sum(a != b for a, b in zip(pair[0].verdicts, pair[1].verdicts, strict=True))
        steps += len(texts)
    assert abs(turned / steps - 0.1) < 4 * (0.1 * 0.9 / steps) ** 0.5


def test_judging_against_what_was_written_forgives_later_steps():
    chain = chains.Chain(46, (("+", 27), ("*", 3)))
    texts = ["Step 1: 46 + 27 = 74", "Step 2: 74 * 3 = 222", "The last result is \\boxed{222}."]
    for against, expected in (("chain", [0.0, 0.0, 0.0]), ("written", [0.0, 1.0, 1.0])):
        ask = ExactStepJudge(against=against).about(chains.problem(chain))
        assert judge_steps(texts, ask, strategy="independent").result().scores == expected
        assert judge_steps(texts, ask).result().scores == [0.0, 0.0, 0.0]


def test_a_problem_without_a_chain_is_refused():
    with pytest.raises(ValueError, match="No chain of operations"):
        ExactStepJudge().about("Find x.")
