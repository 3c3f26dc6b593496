"""What scoring used is logged with the step, and files of kept rollouts lie beside their rows."""

from __future__ import annotations

import math

from botgrpo_cli.records.read import read_metrics, read_samples
from botgrpo_cli.tasks.base import Attachment
from botgrpo_cli.training.rollouts import summarise
from tests.training.toy import LetterTask, make_recipe, make_trainer


class JudgedLetters(LetterTask):
    """Counts what it scored as calls of a judge, and draws a picture of every n-th rollout."""

    def __init__(self, drawn: int = 1):
        self.calls, self.drawn = 0, drawn

    def submit(self, completion):
        self.calls += 1
        future = super().submit(completion)
        if self.calls % self.drawn == 0:
            future.result().detail["screenshot"] = Attachment(completion.data, "screenshots", ".png")
        return future

    def counters(self):
        calls, self.calls = self.calls, 0
        return {"judge_calls": float(calls), "judge_cost": None, "judge_seconds_p95": float(calls)}


def test_counters_are_those_of_the_step_and_unknown_ones_are_empty_cells(tmp_path):
    trainer = make_trainer(tmp_path / "run", make_recipe(training__steps=2), task=JudgedLetters())
    trainer.run()
    rows = read_metrics(tmp_path / "run")
    calls = rows[rows["metric"] == "judge_calls"].set_index(["split", "step"])["value"]
    assert calls["train"].tolist() == [12.0, 12.0]
    assert set(calls["held-out"]) == {4.0}
    assert rows[rows["metric"] == "judge_cost"]["value"].isna().all()


def test_pictures_of_the_kept_rollouts_are_files_and_the_others_are_dropped(tmp_path):
    trainer = make_trainer(tmp_path / "run", make_recipe(training__steps=1), task=JudgedLetters())
    trainer.run()
    samples = list(read_samples(tmp_path / "run"))
    assert {sample["split"] for sample in samples} == {"train", "held-out"}
    for sample in samples:
        text = (tmp_path / "run" / sample["screenshot"]).read_bytes().decode("utf-8", "replace")
        assert text == sample["text"]
        assert sample["screenshot"].startswith(f"screenshots/step-{sample['step']:04d}-{sample['split']}-")
    assert len(list((tmp_path / "run" / "screenshots").iterdir())) == len(samples)


def test_a_rollout_with_a_picture_is_kept_though_others_were_chosen(tmp_path):
    trainer = make_trainer(tmp_path / "run", make_recipe(training__steps=1), task=JudgedLetters(drawn=5))
    trainer.run()
    kept = [sample for sample in read_samples(tmp_path / "run") if sample["split"] == "train"]
    assert sum("screenshot" in sample for sample in kept) == 2
    assert len(kept) == 4


def test_joined_batches_add_their_counts_and_keep_the_larger_quantile(tmp_path):
    trainer = make_trainer(tmp_path / "run", task=JudgedLetters())
    one, other = (trainer._collect(trainer.train_prompts[:n], step=1, group_size=4) for n in (1, 2))
    joined = summarise(one.join(other))
    assert (joined["judge_calls"], joined["judge_seconds_p95"]) == (12.0, 8.0)
    assert math.isnan(joined["judge_cost"])
    one.counters["judge_cost"] = 2.0
    assert math.isnan(summarise(one.join(other))["judge_cost"])
    other.counters["judge_cost"] = 3.0
    assert summarise(one.join(other))["judge_cost"] == 5.0
