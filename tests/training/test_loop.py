"""The loop on disk: tidy rows, resuming to the same numbers, Ctrl-C at any moment, warnings."""

from __future__ import annotations

import os
import signal

import pytest
import torch

from botgrpo_cli.errors import InputError, RunError
from botgrpo_cli.records.read import read_metrics, read_samples
from botgrpo_cli.records.write import RunWriter
from botgrpo_cli.training.batches import held_out_of_run, prompts_of_step
from botgrpo_cli.training.checkpoint import list_checkpoints, load_checkpoint
from botgrpo_cli.training.interrupt import Interrupts
from tests.conftest import make_policy
from tests.training.toy import LetterTask, make_recipe, make_trainer

CLOCKS = ("seconds_", "tokens_per_second")


def table(folder):
    rows = read_metrics(folder)
    return rows[~rows["metric"].str.startswith(CLOCKS)].reset_index(drop=True)


def test_rows_samples_and_checkpoints_of_a_whole_run(tmp_path):
    trainer = make_trainer(tmp_path / "run")
    trainer.run()
    rows = read_metrics(tmp_path / "run")
    train, held_out = rows[rows["split"] == "train"], rows[rows["split"] == "held-out"]
    assert sorted(train["step"].unique()) == [1, 2, 3, 4, 5, 6]
    assert sorted(held_out["step"].unique()) == [0, 2, 4, 6]
    for metric in (
        "reward",
        "term_letters",
        "zero_spread",
        "truncated",
        "length",
        "entropy",
        "kl",
        "clip_share",
        "grad_norm",
        "skipped_steps",
        "tokens_per_second",
        "seconds_sample",
        "seconds_score",
        "seconds_update",
        "local_mean",
    ):
        assert (train["metric"] == metric).sum() == 6, metric
    assert not rows["value"].isna().any()
    samples = list(read_samples(tmp_path / "run"))
    assert {s["step"] for s in samples} == set(range(7))
    first = next(s for s in samples if s["split"] == "train")
    parts = ("ids", "pieces", "advantages", "local")
    assert {len(first[part]) for part in parts} == {first["tokens"]}
    assert [c.step for c in list_checkpoints(tmp_path / "run")] == [3, 6]


def resume(folder, recipe=None):
    trainer = make_trainer(folder, recipe, writer=RunWriter.resume(folder, make_trainer_labels(folder)))
    checkpoint = list_checkpoints(folder)[-1]
    load_checkpoint(checkpoint, trainer.policy, trainer.optimizer)
    trainer.decoder.refresh()
    trainer.step = trainer.saved_at = checkpoint.step
    trainer.writer.truncate_after(checkpoint.step)
    rows = read_metrics(folder)
    evaluated = ((rows["split"] == "held-out") & (rows["step"] == checkpoint.step)).any()
    return trainer, checkpoint.step if evaluated else None


def make_trainer_labels(folder):
    from botgrpo_cli.records.schema import RunLabels

    return RunLabels("toy", "letters", "bot-grpo", "random", "tiny", 0)


def test_a_resumed_run_has_the_table_of_one_that_was_never_stopped(tmp_path):
    make_trainer(tmp_path / "whole").run()
    part = make_trainer(tmp_path / "part")
    part.evaluate()
    for _ in range(3):
        part.train_step()
        if part.step == 2:
            part.evaluate()
    part.save()
    part.train_step()  # past the checkpoint: lost, its rows dropped
    trainer, evaluated_at = resume(tmp_path / "part")
    trainer.run(evaluated_at)
    a, b = table(tmp_path / "whole"), table(tmp_path / "part")
    assert a.drop(columns="value").equals(b.drop(columns="value"))
    torch.testing.assert_close(
        torch.tensor(a["value"].to_numpy()), torch.tensor(b["value"].to_numpy()), rtol=1e-4, atol=1e-5
    )


class InterruptingTask(LetterTask):
    """Sends SIGINT to this process while a given rollout is scored."""

    def __init__(self, at):
        self.at, self.count = at, 0

    def submit(self, completion):
        self.count += 1
        if self.count == self.at:
            os.kill(os.getpid(), signal.SIGINT)
        return super().submit(completion)


@pytest.mark.parametrize("at", [2, 9, 30, 41])
def test_ctrl_c_saves_the_last_whole_step(tmp_path, at):
    trainer = make_trainer(tmp_path / "run", task=InterruptingTask(at))
    with pytest.raises(KeyboardInterrupt):
        trainer.run()
    saved = list_checkpoints(tmp_path / "run")[-1]
    assert saved.step == trainer.step
    rows = read_metrics(tmp_path / "run")
    steps = rows[rows["split"] == "train"]["step"]
    assert (steps.max() if len(steps) else 0) == trainer.step
    trainer, evaluated_at = resume(tmp_path / "run")
    trainer.run(evaluated_at)
    make_trainer(tmp_path / "whole").run()
    a, b = table(tmp_path / "whole"), table(tmp_path / "run")
    assert a.drop(columns="value").equals(b.drop(columns="value"))


def test_a_shield_puts_a_signal_off_until_its_end():
    interrupts, reached = Interrupts(), []

    def body():
        with interrupts.shield():
            os.kill(os.getpid(), signal.SIGINT)
            reached.append("end of the shield")
        reached.append("after it")

    with interrupts.watching(), pytest.raises(KeyboardInterrupt):
        body()
    assert reached == ["end of the shield"]


@pytest.mark.parametrize("lora", [False, True])
def test_checkpoint_round_trip(tmp_path, lora):
    trainer = make_trainer(tmp_path / "run", policy=make_policy(lora=lora))
    trainer.train_step()
    trainer.save()
    fresh = make_policy(lora=lora, seed=0)
    load_checkpoint(list_checkpoints(tmp_path / "run")[-1], fresh)
    for name, p in trainer.policy.trainable().items():
        assert torch.equal(p, fresh.trainable()[name]), name


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    trainer = make_trainer(tmp_path / "run", policy=make_policy("llama"))
    trainer.save()
    with pytest.raises(InputError, match="another model"):
        load_checkpoint(list_checkpoints(tmp_path / "run")[-1], make_policy("llama", lora=True))


def test_a_half_written_checkpoint_is_not_seen(tmp_path):
    (tmp_path / "checkpoints" / ".writing-4").mkdir(parents=True)
    (tmp_path / "checkpoints" / "step-3").mkdir()
    assert list_checkpoints(tmp_path) == []


def test_a_run_without_any_signal_says_so(tmp_path):
    class FlatTask(LetterTask):
        def submit(self, completion):
            future = super().submit(completion)
            future.result().reward = 0.5
            future.result().local = [0.0] * len(completion.pieces)
            return future

    trainer = make_trainer(tmp_path / "run", task=FlatTask())
    trainer.run()
    assert "no group had any spread" in trainer.reporter.notes[0]


def test_five_gradients_in_a_row_that_are_not_finite_stop_the_run(tmp_path):
    trainer = make_trainer(tmp_path / "run", make_recipe(training__steps=9, evaluation__every=9, checkpoint__every=9))
    with torch.no_grad():
        trainer.policy.causal_lm.base_model.norm.weight[0] = float("inf")
    with pytest.raises(RunError, match="5 steps in a row"):
        trainer.run()
    assert trainer.step == 5


def test_every_prompt_comes_once_an_epoch_and_no_step_holds_one_twice():
    prompts = LetterTask().prompts("train")
    for epoch in range(3):
        seen = [p.id for step in range(1, 5) for p in prompts_of_step(prompts, count=3, seed=1, step=4 * epoch + step)]
        assert sorted(seen) == sorted(p.id for p in prompts)
    assert prompts_of_step(prompts, count=3, seed=1, step=1) != prompts_of_step(prompts, count=3, seed=2, step=1)
    assert all(len({p.id for p in prompts_of_step(prompts, count=5, seed=0, step=s)}) == 5 for s in range(1, 9))


def test_held_out_prompts_are_the_same_for_every_run():
    prompts = LetterTask().prompts("held-out")
    assert held_out_of_run(prompts, count=4) == held_out_of_run(prompts, count=6)[:4]


def test_a_checkpoint_that_cannot_be_written_fails_the_run_and_keeps_the_rows(tmp_path):
    trainer = make_trainer(tmp_path / "run")
    (tmp_path / "run" / "checkpoints").write_text("in the way")
    with pytest.raises(RunError, match="checkpoint of step 3 could not be written"):
        trainer.run()
    rows = read_metrics(tmp_path / "run")
    assert sorted(rows[rows["split"] == "train"]["step"].unique()) == [1, 2, 3]
