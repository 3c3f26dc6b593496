"""A recipe trained by TRL: the same numbers as the native engine on the same rollouts, the same records, resuming."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from botgrpo_cli.methods.registry import METHODS, resolve
from botgrpo_cli.policy.decode import choose_decoder
from botgrpo_cli.policy.load import load_policy
from botgrpo_cli.policy.sample import sample_groups, stream
from botgrpo_cli.recipe.schema import PolicyConfig
from botgrpo_cli.records.manifest import read_manifest
from botgrpo_cli.records.read import read_metrics, read_samples
from botgrpo_cli.training.checkpoint import list_checkpoints, load_checkpoint
from botgrpo_cli.training.trl_engine.trainer import RecipeTrainer
from tests.conftest import make_policy
from tests.training.test_loop import InterruptingTask
from tests.training.toy import Log, make_recipe, make_trainer
from tests.training.trl_toy import prepare

CLOCKS = ("seconds_", "tokens_per_second")


def table(folder, *, without=()):
    """{(step, split, metric): value}, clocks left out."""
    rows = read_metrics(folder)
    rows = rows[~rows["metric"].str.startswith(CLOCKS) & ~rows["metric"].isin(without)]
    return {(r.step, r.split, r.metric): r.value for r in rows.itertuples()}


@pytest.fixture
def our_rollouts(monkeypatch):
    """TRL trains on what the native engine's sampler draws for the same step."""

    def generate(self, prompt_ids, *_, **__):
        recipe = self.recipe
        size, limit = recipe.sampling.group_size, recipe.sampling.max_new_tokens
        step = self.state.global_step // self.updates + 1
        count = recipe.sampling.prompts
        names = self.train_dataset["prompt_id"][(step - 1) * count : step * count]
        draws = np.stack([stream(recipe.training.seed, step, name, k, limit) for name in names for k in range(size)])
        decoder = choose_decoder(self.policy)
        prompts = prompt_ids[::size]
        options = {"group_size": size, "max_new_tokens": limit, "temperature": recipe.sampling.temperature}
        return [r.ids for r in sample_groups(self.policy, decoder, prompts, draws, **options)], None

    monkeypatch.setattr(RecipeTrainer, "_generate_single_turn", generate)


ONE_MINIBATCH = {"method__minibatches": 1, "method__refills": 0, "training__steps": 3}


@pytest.mark.parametrize(
    "changes",
    [
        *({"method__name": name} for name in METHODS),
        {"training__inner_epochs": 3, "training__warmup_steps": 2},
        {"training__weight_decay": 0.1, "training__max_grad_norm": 0.05, "sampling__temperature": 0.7},
        {"training__micro_batch": 5},  # TRL takes the largest divisor, the update stays
    ],
    ids=str,
)
def test_on_the_same_rollouts_both_engines_write_the_same_numbers(tmp_path, our_rollouts, changes):
    recipe = make_recipe(**ONE_MINIBATCH, **changes)
    native = make_trainer(tmp_path / "native", recipe)
    native.run()
    prepared = prepare(tmp_path / "trl", recipe)
    prepared.start(Log()).run()
    ours, theirs = (table(tmp_path / name, without=("sampler_gap",)) for name in ("native", "trl"))
    assert set(ours) == set(theirs)
    for key, value in ours.items():
        assert theirs[key] == pytest.approx(value, rel=1e-4, abs=1e-5), key
    weights = native.policy.model.state_dict()
    for name, weight in prepared.prepared.policy.model.state_dict().items():
        torch.testing.assert_close(weight, weights[name], rtol=1e-4, atol=1e-5)


def test_the_kl_of_adapters_is_to_where_they_started(tmp_path, our_rollouts):
    recipe = make_recipe(training__kl=0.5, training__inner_epochs=2, **ONE_MINIBATCH)
    make_trainer(tmp_path / "native", recipe, policy=make_policy(lora=True)).run()
    prepare(tmp_path / "trl", recipe, policy=make_policy(lora=True)).start(Log()).run()
    ours, theirs = (table(tmp_path / name, without=("sampler_gap",)) for name in ("native", "trl"))
    assert ours[3, "train", "kl"] > 1e-4
    for key, value in ours.items():
        assert theirs[key] == pytest.approx(value, rel=1e-3, abs=1e-4), key


def test_the_kl_of_whole_weights_is_to_what_the_recipe_names(tmp_path, our_rollouts):
    """TRL loads its reference model by itself, from where the policy came from."""
    config = PolicyConfig(model="tiny:react-qwen2", device="cpu", dtype="float32")
    recipe = make_recipe(training__kl=0.5, training__inner_epochs=2, **ONE_MINIBATCH)
    make_trainer(tmp_path / "native", recipe, policy=load_policy(config)).run()
    prepare(tmp_path / "trl", recipe, policy=load_policy(config)).start(Log()).run()
    ours, theirs = (table(tmp_path / name, without=("sampler_gap",)) for name in ("native", "trl"))
    assert ours[3, "train", "kl"] > 1e-4
    for key, value in ours.items():
        assert theirs[key] == pytest.approx(value, rel=1e-3, abs=1e-4), key


def test_rows_samples_manifest_and_checkpoints_of_a_whole_run(tmp_path):
    engine, log = prepare(tmp_path / "run", make_recipe()), Log()
    engine.start(log).run()
    make_trainer(tmp_path / "native").run()
    rows, native = (read_metrics(tmp_path / name) for name in ("run", "native"))
    assert set(native["metric"]) - set(rows["metric"]) == {"sampler_gap"}
    assert not rows["value"].isna().any()
    assert sorted(rows[rows["split"] == "train"]["step"].unique()) == [1, 2, 3, 4, 5, 6]
    assert sorted(rows[rows["split"] == "held-out"]["step"].unique()) == [0, 2, 4, 6]
    samples = list(read_samples(tmp_path / "run"))
    first = next(s for s in samples if s["split"] == "train")
    assert len(first["ids"]) == len(first["advantages"]) == len(first["local"]) == first["tokens"]
    assert [c.step for c in list_checkpoints(tmp_path / "run")] == [3, 6]
    assert not list((tmp_path / "run" / "checkpoints").glob("checkpoint-*"))
    manifest = read_manifest(tmp_path / "run")
    assert (manifest["engine"], manifest["engine_notes"]) == ("trl", [])
    assert manifest["software"]["trl"]
    assert [step for step, _ in log.steps] == [1, 2, 3, 4, 5, 6]
    assert [step for step, _ in log.evaluations] == [0, 2, 4, 6]


def test_a_checkpoint_is_one_that_everything_else_can_read(tmp_path):
    engine = prepare(tmp_path / "run", make_recipe(training__steps=2))
    engine.start(Log()).run()
    other = make_policy(seed=5)
    load_checkpoint(list_checkpoints(tmp_path / "run")[-1], other)
    for name, weight in engine.prepared.policy.model.state_dict().items():
        assert torch.equal(weight, other.model.state_dict()[name]), name


@pytest.mark.parametrize("lora", [False, True])
def test_a_resumed_run_has_the_table_of_one_that_was_never_stopped(tmp_path, lora):
    changes = {"checkpoint__every": 2, "training__steps": 4, "training__kl": 0.1 if lora else 0.0}
    prepare(tmp_path / "whole", make_recipe(**changes), policy=make_policy(lora=lora)).start(Log()).run()
    part = prepare(tmp_path / "part", make_recipe(**changes | {"training__steps": 3}), policy=make_policy(lora=lora))
    run = part.start(Log())
    run.step_done = lambda figures, old=run.step_done: (old(figures), stop(run))
    with pytest.raises(RuntimeError):
        run.run()
    assert [c.step for c in list_checkpoints(tmp_path / "part")] == [2]  # step 3 is lost
    again = prepare(tmp_path / "part", make_recipe(**changes), policy=make_policy(lora=lora))
    run, evaluated_at = again.resume(Log())
    assert (run.step, evaluated_at) == (2, 2)
    run.run(evaluated_at)
    whole, part = table(tmp_path / "whole"), table(tmp_path / "part")
    assert set(whole) == set(part)
    for key, value in whole.items():
        assert part[key] == pytest.approx(value, rel=1e-4, abs=1e-5), key


def stop(run):
    if run.step == 3:
        raise RuntimeError("killed")


@pytest.mark.parametrize("at", [2, 9, 30, 41])
def test_ctrl_c_saves_the_last_whole_step(tmp_path, at):
    run = prepare(tmp_path / "run", make_recipe(), task=InterruptingTask(at)).start(Log())
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert list_checkpoints(tmp_path / "run")[-1].step == run.step
    steps = read_metrics(tmp_path / "run").query("split == 'train'")["step"]
    assert (steps.max() if len(steps) else 0) == run.step
    again, evaluated_at = prepare(tmp_path / "run", make_recipe()).resume(Log())
    again.run(evaluated_at)
    assert list_checkpoints(tmp_path / "run")[-1].step == 6


def test_a_gradient_that_is_not_finite_is_dropped_and_counted(tmp_path):
    engine = prepare(tmp_path / "run", make_recipe(training__steps=2))
    before = {name: p.detach().clone() for name, p in engine.prepared.policy.trainable().items()}
    next(iter(engine.prepared.policy.trainable().values())).register_hook(lambda g: g * math.nan)
    engine.start(Log()).run()
    rows = table(tmp_path / "run")
    assert [rows[step, "train", "skipped_steps"] for step in (1, 2)] == [1.0, 1.0]
    assert all(torch.equal(before[name], p) for name, p in engine.prepared.policy.trainable().items())


def test_groups_that_dapo_would_replace_are_kept_and_that_is_said(tmp_path):
    recipe = make_recipe(method__name="dapo", training__steps=1)
    engine = prepare(tmp_path / "run", recipe)
    assert resolve(recipe.method).refills > 0
    engine.start(Log()).run()
    (note,) = read_manifest(tmp_path / "run")["engine_notes"]
    assert "method.refills is 10" in note
    assert ("note", note) in engine.rows()
    assert note in (tmp_path / "run" / "events.log").read_text()
