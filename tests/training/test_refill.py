"""DAPO's dynamic sampling and overlong punishment in the trainer."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from botgrpo_cli.errors import RunError
from botgrpo_cli.methods.registry import resolve
from botgrpo_cli.records.read import read_metrics
from botgrpo_cli.tasks.base import Scored
from botgrpo_cli.training.refill import collect_step, rewards_of
from tests.training.toy import LetterTask, make_recipe, make_trainer


class Flat(LetterTask):
    """Some prompts score the same whatever is written; `asked` lists the prompts in the order they were sampled."""

    def __init__(self, flat):
        self.flat = flat
        self.asked = []

    def submit(self, completion):
        scored = super().submit(completion).result()
        if completion.prompt.id not in self.asked:
            self.asked.append(completion.prompt.id)
        if completion.prompt.id in self.flat:
            scored.reward, scored.local = 1.0, [0.0] * len(scored.local)
        future: Future[Scored] = Future()
        future.set_result(scored)
        return future


def ids(task):
    return [p.id for p in task.prompts("train")]


def collector(trainer):
    size = trainer.recipe.sampling.group_size
    return lambda prompts: trainer._collect(prompts, step=1, group_size=size)


def dapo(**changes):
    return make_recipe(method__name="dapo", method__overlong=0.0, **changes)


def test_groups_without_spread_are_replaced(tmp_path):
    task = Flat(flat=[f"train-{i}" for i in range(0, 12, 2)])
    recipe = dapo()
    trainer = make_trainer(tmp_path / "run", recipe, task=task)
    method = resolve(recipe.method)
    batch, said = collect_step(trainer.train_prompts, method, recipe, step=1, collect=collector(trainer))
    kept = {p.id for p in batch.prompts}
    assert len(kept) == recipe.sampling.prompts
    assert not kept & set(task.flat)
    assert batch.group.tolist() == [g for g in range(3) for _ in range(4)]
    dropped = len(set(task.asked) & set(task.flat))
    assert said == {"refills": said["refills"], "dropped_groups": dropped}
    assert 1 <= said["refills"] <= 10
    again, _ = collect_step(trainer.train_prompts, method, recipe, step=1, collect=collector(trainer))
    assert [p.id for p in again.prompts] == [p.id for p in batch.prompts]  # a function of (seed, step)
    assert [r.ids for r in again.rollouts] == [r.ids for r in batch.rollouts]


def test_other_methods_keep_them(tmp_path):
    task = Flat(flat=ids(LetterTask()))
    recipe = make_recipe(method__name="grpo")
    trainer = make_trainer(tmp_path / "run", recipe, task=task)
    batch, said = collect_step(
        trainer.train_prompts, resolve(recipe.method), recipe, step=1, collect=collector(trainer)
    )
    assert said == {}
    assert len(task.asked) == 3
    assert (rewards_of(batch, resolve(recipe.method), recipe).advantages(resolve(recipe.method)) == 0).all()


@pytest.mark.parametrize(("refills", "why"), [(2, "after 2 refills,"), (10, "with every training prompt tried")])
def test_bounded_tries_end_in_a_clear_error(tmp_path, refills, why):
    task = Flat(flat=ids(LetterTask())[1:])
    trainer = make_trainer(tmp_path / "run", dapo(method__refills=refills), task=task)
    with pytest.raises(RunError, match=r"Set method\.refills=0") as error:
        trainer.train_step()
    assert why in str(error.value)
    assert "of 3 groups" in str(error.value)
    assert len(task.asked) == len(set(task.asked)) <= 12


def test_a_run_logs_what_it_refilled(tmp_path):
    task = Flat(flat=["train-0", "train-1", "train-2"])
    trainer = make_trainer(tmp_path / "run", dapo(training__steps=4), task=task)
    trainer.run()
    rows = read_metrics(tmp_path / "run")
    dropped = rows[rows["metric"] == "dropped_groups"]["value"]
    assert len(dropped) == 4  # a row a step
    assert dropped.sum() >= 3  # four steps of three prompts see every one of the twelve once
    assert (rows[rows["metric"] == "zero_spread"]["value"] == 0).all()


def test_overlong_rollouts_are_punished_by_dapo_alone(tmp_path):
    recipe = make_recipe(method__name="dapo", method__refills=0, method__overlong=0.5)
    trainer = make_trainer(tmp_path / "run", recipe)
    batch = collector(trainer)(trainer.train_prompts[:3])
    found = rewards_of(batch, resolve(recipe.method), recipe)
    plain = rewards_of(batch, resolve(make_recipe(method__name="grpo").method), recipe)
    for k, length in enumerate(batch.lengths):
        punishment = min(0.0, -(length - 6) / 6)  # the last half of 12 tokens
        assert found.outcome[k].item() == pytest.approx(plain.outcome[k].item() + punishment)
        for t in range(length):  # the punishment is global: on every token
            assert (found.tokens - plain.tokens)[k, t].item() == pytest.approx(punishment)
    assert any(n == 12 for n in batch.lengths)
