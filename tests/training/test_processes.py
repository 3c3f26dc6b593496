"""A run on two processes is the run on one: the same rows, the same weights, whatever shares out the work.

The processes are real ones that talk over gloo on the CPU; the policy and the task are toys (workers.py).
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

from botgrpo_cli.errors import InputError, RunError
from botgrpo_cli.policy.load import choose_device
from botgrpo_cli.recipe.checks import check_processes
from botgrpo_cli.recipe.errors import RecipeError
from botgrpo_cli.recipe.shipped import shipped_dir, shipped_names
from botgrpo_cli.records.manifest import read_manifest
from botgrpo_cli.records.read import read_metrics, read_samples
from botgrpo_cli.training.checkpoint import list_checkpoints
from botgrpo_cli.training.processes import ALONE, Processes, join, launched, refuse_other_launches
from tests.program import Forked
from tests.training import workers
from tests.training.test_loop import table
from tests.training.toy import make_recipe

ROOT = Path(__file__).parents[2]
SHARDED = {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}


def launch(*command: str | Path, cwd: Path = ROOT, count: int = 2, **environment: str) -> list[tuple[int, str]]:
    """(exit code, standard error) of `count` processes, started as a launcher starts them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {**os.environ, "OMP_NUM_THREADS": "1", "WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1"}
    common |= {"MASTER_PORT": str(port), "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "200", **environment}
    started = [
        Forked(*command, cwd=cwd, environment={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(count)
    ]
    try:
        ended = [process.wait(600) for process in started]
    finally:
        for process in started:
            process.kill()
    return [(done.returncode, f"{done.stdout}{done.stderr}") for done in ended]


def work(action: str, folder: Path, *cases: str, **environment: str) -> list[tuple[int, str]]:
    return launch("tests.training.workers", action, folder, *cases, **environment)


def whole(ended: list[tuple[int, str]]) -> None:
    assert [code for code, _ in ended] == [0, 0], "\n".join(text for _, text in ended)


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Path:
    """Every case on one process, in this one."""
    folder = tmp_path_factory.mktemp("alone")
    workers.train(folder, list(workers.CASES))
    return folder


@pytest.fixture(scope="module")
def together(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("together")
    whole(work("train", folder, *workers.CASES))
    return folder


@pytest.fixture(scope="module")
def sharded(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("sharded")
    whole(work("train", folder, *workers.SHARDED_CASES, **SHARDED))
    return folder


def assert_same_run(one: Path, two: Path) -> None:
    """The same rows with the same values, the same weights, and the same gradients.

    Gradients are those in the optimizer's first moment. AdamW can make much of the rounding of a tiny one, so weights
    are compared as a whole.
    """
    a, b = table(one), table(two)
    assert a.drop(columns="value").equals(b.drop(columns="value"))
    values = [torch.tensor(rows["value"].to_numpy()) for rows in (a, b)]
    torch.testing.assert_close(*values, rtol=2e-4, atol=1e-5)
    for step in (2, 3):
        folders = [run / "checkpoints" / f"step-{step}" for run in (one, two)]
        weights = [load_file(next(folder.glob("*model.safetensors"))) for folder in folders]
        assert set(weights[0]) == set(weights[1])
        flat = [torch.cat([w[name].flatten() for name in sorted(w)]) for w in weights]
        assert distance(*flat) < 1e-5
        states = [torch.load(folder / "optimizer.pt", weights_only=True)["state"] for folder in folders]
        moments = [torch.cat([s["exp_avg"].flatten() for s in state.values()]) for state in states]
        assert distance(*moments) < 1e-5


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).norm() / a.norm())


@pytest.mark.slow
@pytest.mark.parametrize("case", workers.CASES)
def test_two_processes_train_as_one(case, alone, together):
    assert_same_run(alone / case, together / case)


@pytest.mark.slow
@pytest.mark.parametrize("case", workers.SHARDED_CASES)
def test_sharded_parameters_train_as_whole_ones(case, alone, sharded):
    assert_same_run(alone / case, sharded / case)


@pytest.mark.slow
def test_one_process_writes_and_the_manifest_says_how_many_there_were(alone, together, sharded):
    for folder, count, strategy in ((alone, 1, "single"), (together, 2, "ddp"), (sharded, 2, "fsdp")):
        manifest = read_manifest(folder / "lora")
        assert (manifest["processes"], manifest["strategy"]) == (count, strategy)
        rows = read_metrics(folder / "lora")
        assert not rows.duplicated(["step", "split", "metric"]).any()
        assert (folder / "lora" / "events.log").read_text().count("started") == 1
    samples = [[s["rollout"] for s in read_samples(folder / "kl")] for folder in (alone, together, sharded)]
    assert samples[0] == samples[1] == samples[2]


@pytest.mark.slow
def test_an_evaluation_is_shared_out_too(alone, together):
    found = [json.loads((folder / "evaluated.json").read_text()) for folder in (alone, together)]
    assert len(found[0]) == 10
    assert found[0] == found[1]


def back_to_step_2(run: Path, copy: Path) -> None:
    shutil.copytree(run, copy)
    shutil.rmtree(copy / "checkpoints" / "step-3")


@pytest.mark.slow
@pytest.mark.parametrize("case", ["bot-grpo", "lora"])
def test_a_run_of_two_processes_goes_on_alone(case, alone, together, sharded, tmp_path):
    for name, folder in (("together", together), ("sharded", sharded)):
        back_to_step_2(folder / case, tmp_path / name / case)
        workers.go_on(tmp_path / name, [case])
        assert_same_run(alone / case, tmp_path / name / case)


@pytest.mark.slow
def test_a_run_of_one_process_goes_on_with_two_that_share_its_parameters(alone, tmp_path):
    for case in ("bot-grpo", "lora"):
        back_to_step_2(alone / case, tmp_path / case)
    whole(work("go_on", tmp_path, "bot-grpo", "lora", **SHARDED))
    for case in ("bot-grpo", "lora"):
        assert_same_run(alone / case, tmp_path / case)


STOPS = {
    "sample-2": 0,  # evaluating the start
    "sample-9": 0,  # sampling for step 1
    "pass-2": 0,  # in its update, before the weights move: the step is given up
    "pass-4": 1,  # in the last pass: the step is finished
}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("stopped")
    whole(work("stopped", folder, *STOPS, "score-9"))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("place", STOPS)
def test_a_signal_to_one_process_stops_both_at_the_same_step(place, stopped):
    step = STOPS[place]
    said = [(stopped / f"{place}-{rank}.txt").read_text() for rank in (0, 1)]
    assert said == [f"interrupted after step {step}"] * 2
    assert [c.step for c in list_checkpoints(stopped / place)] == [step]
    rows = read_metrics(stopped / place)
    assert rows[rows["split"] == "train"]["step"].unique().tolist() == list(range(1, step + 1))


@pytest.mark.slow
def test_what_one_process_can_not_do_fails_all_of_them_with_its_words(stopped):
    said = [(stopped / f"score-9-{rank}.txt").read_text() for rank in (0, 1)]
    assert said == ["the compiler is gone after step 0"] * 2
    assert list_checkpoints(stopped / "score-9") == []


@pytest.mark.slow
def test_a_process_that_dies_takes_the_other_with_it(tmp_path):
    (first, _), (second, _) = work("dying", tmp_path)
    assert second == 3
    assert first not in (0, None)


@pytest.mark.slow
def test_prompts_that_cannot_be_shared_are_refused_once_before_anything_starts(tmp_path):
    arguments = ["train", "react_qwen", "--scale", "tiny", "--set", "sampling.prompts=3", "--out", "run"]
    ended = launch("botgrpo_cli", *arguments, "--set", "training.micro_batch=8", cwd=tmp_path)
    assert [code for code, _ in ended] == [2, 2]
    assert "Found 3, which 2 processes can't share evenly; expected 2 or 4, or 1 or 3 processes." in ended[0][1]
    assert "Found" not in ended[1][1]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_accelerate_launch_trains_the_tiny_scale_with_the_real_compiler(tmp_path):
    few = ["sampling.prompts=2", "sampling.group_size=2", "training.micro_batch=2", "evaluation.prompts=3"]
    few += ["sampling.max_new_tokens=60", "training.threads=1"]
    command = ["accelerate", "launch", "--config_file", ROOT / "recipes" / "accelerate" / "ddp.yaml"]
    command += ["--main_process_port", "0", "-m", "botgrpo_cli", "train", "react_qwen", "--scale", "tiny"]
    command += ["--steps", "1", "--out", "run", *(word for text in few for word in ("--set", text))]
    scripts = Path(sys.executable).parent
    done = subprocess.run(
        [str(scripts / command[0]), *map(str, command[1:])],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("botgrpo plot run") == 1
    assert done.stdout.count("held-out compile rate") == 2
    assert "each samples 1 prompts a step" in done.stdout
    rows = read_metrics(tmp_path / "run")
    assert not rows.duplicated(["step", "split", "metric"]).any()
    assert rows[rows["split"] == "train"]["step"].unique().tolist() == [1]
    manifest = read_manifest(tmp_path / "run")
    assert (manifest["status"], manifest["processes"], manifest["strategy"]) == ("done", 2, "ddp")
    assert [c.step for c in list_checkpoints(tmp_path / "run")] == [1]


def test_blocks_are_contiguous_and_alike_in_size():
    for items in (range(8), range(7), range(1)):
        blocks = [list(Processes(count=3, rank=rank).block(items)) for rank in range(3)]
        assert [i for block in blocks for i in block] == list(items)
        sizes = [len(block) for block in blocks]
        assert max(sizes) - min(sizes) <= 1


def test_a_process_alone_waits_for_nobody():
    tensor = torch.tensor([1.0, 2.0])
    assert ALONE.sum(tensor) is tensor
    assert (ALONE.gather("x"), ALONE.any(False), ALONE.strategy, ALONE.main) == (["x"], False, "single", True)
    with pytest.raises(RunError, match="as it was"), ALONE.agreed():
        raise RunError("as it was")


def test_without_a_launcher_nothing_is_joined(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "ACCELERATE_USE_FSDP"):
        monkeypatch.delenv(name, raising=False)
    assert join() is ALONE
    one = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    assert not launched(one)
    assert launched({**one, "WORLD_SIZE": "2"})


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"ACCELERATE_MIXED_PRECISION": "no", "MASTER_ADDR": "127.0.0.1"}, "--multi_gpu"),
        ({"ACCELERATE_USE_DEEPSPEED": "true"}, "DeepSpeed"),
        ({"ACCELERATE_USE_FSDP": "true"}, "fsdp_version is 1; expected 2"),
        ({**SHARDED, "FSDP_OFFLOAD_PARAMS": "true"}, "fsdp_offload_params"),
        ({**SHARDED, "FSDP_RESHARD_AFTER_FORWARD": "false"}, "fsdp_reshard_after_forward"),
    ],
)
def test_launches_that_would_do_something_else_are_refused(environment, words):
    with pytest.raises(InputError, match=words):
        refuse_other_launches(environment)


def test_prompts_are_shared_by_whole_groups():
    recipe = make_recipe(sampling__prompts=8)
    for count in (1, 2, 4, 8):
        check_processes(recipe, count)
    with pytest.raises(RecipeError, match="expected 6 or 9, or 1, 2, 4 or 8 processes"):
        check_processes(recipe, 3)
    with pytest.raises(RecipeError, match="expected 16, or"):
        check_processes(recipe, 16)


def test_each_process_takes_its_own_device():
    assert choose_device("cpu", local_rank=1).type == "cpu"
    there = torch.cuda.device_count()
    with pytest.raises(InputError, match=f"torch sees {there} here; expected at most {there} processes"):
        choose_device("cuda", local_rank=there)
    with pytest.raises(InputError, match="Several processes can't train on one device, cuda:0"):
        choose_device("cuda:0", local_rank=0)


@pytest.mark.parametrize("name", ["ddp", "fsdp"])
def test_the_configurations_for_accelerate_say_what_each_key_is(name):
    path = shipped_dir() / "accelerate" / f"{name}.yaml"
    lines = path.read_text(encoding="utf-8").splitlines()
    for above, line in pairwise(lines):
        if not line.lstrip().startswith("#") and ":" in line:
            indent = line[: len(line) - len(line.lstrip())]
            assert above.startswith(f"{indent}# "), line
            assert above.endswith("]"), line
    keys = yaml.safe_load("\n".join(lines))
    settings = {f"{key.upper()}": str(value).lower() for key, value in keys.get("fsdp_config", {}).items()}
    refuse_other_launches({**settings, "ACCELERATE_USE_FSDP": str(name == "fsdp")})
    assert name not in shipped_names()
