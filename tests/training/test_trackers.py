"""Trackers beside metrics.csv: the same values under our names and TRL's, one that fails, a run that goes on."""

from __future__ import annotations

import math

import pytest

from botgrpo_cli.errors import InputError
from botgrpo_cli.methods.registry import METHODS
from botgrpo_cli.recipe.load import dump_recipe
from botgrpo_cli.records.read import read_metrics
from botgrpo_cli.records.schema import RunLabels
from botgrpo_cli.records.write import RunWriter
from botgrpo_cli.training import tracker_kinds
from botgrpo_cli.training.checkpoint import list_checkpoints, load_checkpoint
from botgrpo_cli.training.processes import Processes
from botgrpo_cli.training.run import RECIPE_FILE, refuse_other_recipe
from botgrpo_cli.training.tracker_kinds import Live, wandb_id
from botgrpo_cli.training.trackers import TRL_NAMES, following, named, prepare, trl_names
from tests.recipe.helpers import load, problems_of, write
from tests.training import trl_toy
from tests.training.toy import Log, make_recipe, make_trainer

LABELS = RunLabels("toy", "letters", "bot-grpo", "random", "tiny", 0)


class Heard:
    """A tracker that remembers; it fails from step `fails_at` on."""

    def __init__(self, fails_at=math.inf):
        self.fails_at, self.values, self.ends, self.run = fails_at, [], [], None

    def begin(self, run):
        self.run = run
        return Live(self.log, self.ends.append)

    def log(self, values, step):
        if step >= self.fails_at:
            raise OSError("the server is gone.\n  at some line")
        self.values.append((step, values))


@pytest.fixture
def kinds(monkeypatch):
    found = {name: Heard() for name in ("tensorboard", "wandb")}
    for name, heard in found.items():
        monkeypatch.setitem(tracker_kinds.KINDS, name, heard.begin)
    return found


def run(trainer, *, resumed=False, evaluated_at=None):
    with following(trainer, resumed=resumed, evaluated_at=evaluated_at):
        trainer.run(evaluated_at)


def rows(folder):
    """{(step, split/metric): value} of metrics.csv."""
    table = read_metrics(folder).dropna(subset="value")
    return {(row.step, f"{row.split}/{row.metric}"): row.value for row in table.itertuples()}


def notes(trainer):
    """Those about trackers; a toy that learns nothing is noted too."""
    return [note for note in trainer.reporter.notes if "tracker" in note]


def heard_rows(heard):
    return {(step, name): value for step, values in heard.values for name, value in values.items()}


def tracked(*names, **changes):
    return make_recipe(training__trackers=list(names), **changes)


def test_a_tracker_hears_every_row_and_the_names_of_trl_beside_ours(tmp_path, kinds):
    run(make_trainer(tmp_path / "run", tracked("wandb")))
    written, heard = rows(tmp_path / "run"), heard_rows(kinds["wandb"])
    assert written.items() <= heard.items()
    for (step, name), value in heard.items() - written.items():
        assert name.startswith(("train/", "eval/")), name
        assert value in [v for (s, _), v in written.items() if s == step]
    assert heard[6, "train/completions/mean_length"] == written[6, "train/length"]
    assert heard[6, "eval/rewards/letters/mean"] == written[6, "held-out/term_letters"]
    assert heard[4, "eval/reward"] == written[4, "held-out/reward"]
    assert kinds["tensorboard"].values == []  # the recipe does not name it
    assert kinds["wandb"].ends == [True]


def test_trl_logs_the_same_values_under_the_names_of_the_table(tmp_path):
    """One micro-batch a step: of several TRL takes the mean of means."""
    engine = trl_toy.prepare(tmp_path / "run", make_recipe(training__micro_batch=12, training__steps=2))
    same = trl_names(engine.prepared.method)
    trainer, logs = engine.start(Log()), []
    done = trainer.step_done
    trainer.step_done = lambda figures: (logs.append(figures.logs[-1]), done(figures))
    trainer.run()
    table = read_metrics(tmp_path / "run")
    for step, log in enumerate(logs, start=1):
        part = table[(table["step"] == step) & (table["split"] == "train")]
        shown = named([(row.split, row.metric, row.value) for row in part.itertuples()], same)
        compared = {name: value for name in log if (value := shown.get(f"train/{name}")) is not None}
        assert set(TRL_NAMES.values()) - set(compared) == {"kl", "sampling/sampling_logp_difference/mean"}
        for name, value in compared.items():
            assert value == pytest.approx(log[name], rel=1e-5, abs=1e-6), name
    assert len(logs) == 2


def test_names_that_a_method_makes_something_else_are_left_out():
    assert trl_names(METHODS["bot-grpo"]) == TRL_NAMES
    assert set(TRL_NAMES) - set(trl_names(METHODS["gspo"])) == {"clip_share", "clip_share_low", "clip_share_high"}
    assert set(TRL_NAMES) - set(trl_names(METHODS["dapo"])) == {"reward"}


def test_what_a_tracker_is_told_of_the_run(tmp_path, kinds):
    labels = RunLabels("a", "letters", "bot-grpo", "random", "tiny", 0, study="rates", arm="slow")
    trainer = make_trainer(tmp_path, tracked("wandb"), writer=RunWriter.create(tmp_path / "run", labels))
    with following(trainer, resumed=False, evaluated_at=None):
        pass
    told = kinds["wandb"].run
    assert told.folder == tmp_path / "run" / "tracking"
    assert told.tags == ["letters", "bot-grpo", "tiny", "slow"]
    assert told.kept is None
    config = told.config
    assert (config["training.seed"], config["training.trackers"], config["study"]) == (0, '["wandb"]', "rates")
    assert all(value is None or isinstance(value, bool | str | float | int) for value in config.values())


@pytest.mark.parametrize(("step", "evaluated_at", "kept"), [(0, None, -1), (0, 0, 0), (4, None, 4), (4, 4, 4)])
def test_what_a_resumed_run_keeps(tmp_path, kinds, step, evaluated_at, kept):
    trainer = make_trainer(tmp_path / "run", tracked("wandb"))
    trainer.step = step
    with following(trainer, resumed=True, evaluated_at=evaluated_at):
        pass
    assert kinds["wandb"].run.kept == kept


def test_a_tracker_that_fails_is_noted_once_and_the_run_goes_on(tmp_path, kinds):
    kinds["wandb"].fails_at = 3
    trainer = make_trainer(tmp_path / "run", tracked("wandb", "tensorboard"))
    run(trainer)
    assert trainer.step == 6
    assert [step for step, _ in kinds["wandb"].values] == [0, 1, 2, 2]
    assert kinds["wandb"].ends == []
    assert heard_rows(kinds["tensorboard"]).items() >= rows(tmp_path / "run").items()
    (note,) = notes(trainer)
    assert note.startswith("The tracker wandb failed at step 3 and hears no more of this run: the server is gone. ")
    assert (tmp_path / "run" / "events.log").read_text().count("wandb failed at step 3") == 1


def test_one_that_can_not_begin_or_end_does_not_stop_the_run(tmp_path, kinds, monkeypatch):
    def refuse(_):
        raise RuntimeError("no room")

    monkeypatch.setitem(tracker_kinds.KINDS, "tensorboard", refuse)
    monkeypatch.setitem(tracker_kinds.KINDS, "wandb", lambda _: Live(kinds["wandb"].log, refuse))
    trainer = make_trainer(tmp_path / "run", tracked("tensorboard", "wandb"))
    run(trainer)
    assert trainer.step == 6
    first, second = notes(trainer)
    assert "tensorboard failed before the first step" in first
    assert "wandb failed when the run ended" in second


def test_trackers_end_with_a_run_that_is_interrupted(tmp_path, kinds):
    trainer = make_trainer(tmp_path / "run", tracked("wandb"))
    with pytest.raises(KeyboardInterrupt), following(trainer, resumed=False, evaluated_at=None):
        raise KeyboardInterrupt
    assert kinds["wandb"].ends == [False]


def test_only_the_main_process_tracks(tmp_path, kinds):
    trainer = make_trainer(tmp_path / "run", tracked("wandb"))
    trainer.processes = Processes(count=2, rank=1)
    with following(trainer, resumed=False, evaluated_at=None):
        pass
    assert kinds["wandb"].run is None


def test_what_is_not_installed_is_said_before_anything_starts(tmp_path, monkeypatch):
    monkeypatch.setattr("accelerate.tracking._available_trackers", [])
    prepare([], tmp_path)
    with pytest.raises(InputError, match=r"names wandb and trackio, which are not .* pip install 'botgrpo\[track\]'"):
        prepare(["wandb", "trackio", "wandb"], tmp_path)
    with pytest.raises(InputError, match="names tensorboard, which is not installed"):
        prepare(["tensorboard"], tmp_path)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("[tensorboard, wnadb]", "expected a list of tensorboard, wandb, trackio. Did you mean 'wandb'?"),
        ("wandb", "Found 'wandb'; expected a list of tensorboard, wandb, trackio."),
    ],
)
def test_another_word_in_a_recipe_is_refused(tmp_path, value, says):
    path = write(tmp_path, f"extends: react_qwen\ntraining:\n  trackers: {value}\n")
    (problem,) = problems_of(path)
    assert problem.startswith("my.yaml:3: training.trackers: ")
    assert problem.endswith(says)


def test_a_run_may_go_on_with_other_trackers(tmp_path):
    (tmp_path / RECIPE_FILE).write_text(dump_recipe(load("react_qwen", scale="tiny").recipe))
    refuse_other_recipe(load("react_qwen", scale="tiny", sets=["training.trackers=[wandb]"]).recipe, tmp_path)


def test_the_id_of_a_run_stays_and_is_no_other_runs(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
    first = wandb_id(tmp_path / "a", "my run/seed 0")
    assert first.startswith("my-run-seed-0-")
    assert wandb_id(tmp_path / "a", "renamed") == first
    assert wandb_id(tmp_path / "b", "my run/seed 0") != first


def test_tensorboard_holds_what_metrics_csv_holds_also_after_a_kill(tmp_path):
    """Checkpoint at step 3, killed after step 5 and gone on with: the curves have every step once."""
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    recipe = tracked("tensorboard")
    trainer = make_trainer(tmp_path / "run", recipe)
    with following(trainer, resumed=False, evaluated_at=None):
        while trainer.step < 5:
            trainer.train_step()
            if trainer.step == 3:
                trainer.save()
    writer = RunWriter.resume(tmp_path / "run", LABELS)
    writer.truncate_after(3)
    again = make_trainer(tmp_path / "run", recipe, writer=writer)
    load_checkpoint(list_checkpoints(tmp_path / "run")[-1], again.policy, again.optimizer)
    again.step = 3
    run(again, resumed=True)
    shown = event_accumulator.EventAccumulator(str(tmp_path / "run" / "tracking" / "tensorboard"))
    shown.Reload()
    found = [(e.step, tag, e.value) for tag in shown.Tags()["scalars"] for e in shown.Scalars(tag)]
    assert len(found) == len({(step, tag) for step, tag, _ in found})
    values = {(step, tag): value for step, tag, value in found}
    for key, value in rows(tmp_path / "run").items():
        assert values[key] == pytest.approx(value, rel=1e-6), key
    assert {step for step, tag in values if tag == "train/completions/mean_length"} == {1, 2, 3, 4, 5, 6}
