"""Groups that lie on two processes: the advantages, the logs and the trained weights are those of one process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.integrations.trl_processes import METHODS, main

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """12 completions in groups of 4, in this process and on two: there the middle group lies on both."""
    one, two = (str(tmp_path_factory.mktemp("processes") / f"{n}.pt") for n in (1, 2))
    main(one, 12)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    command += ["-m", "tests.integrations.trl_processes", two, "6"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "CI": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    return torch.load(one, weights_only=True), torch.load(two, weights_only=True)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_two_processes_do_what_one_does(found, method):
    one, two = (each[method] for each in found)
    assert [prompt for prompt, _ in one["advantages"]] == [f"say {i}" for i in range(3) for _ in range(4)]
    assert len({len(row) for _, row in one["advantages"]}) > 2  # ragged, so the widths of the processes may differ
    assert one["advantages"] == two["advantages"]
    for key, value in one["metrics"].items():
        if key.startswith(("bag/", "token_rewards/")):
            assert two["metrics"][key] == pytest.approx(value), key
    assert two["log"]["loss"] == pytest.approx(one["log"]["loss"], abs=1e-6)
    assert two["log"]["grad_norm"] == pytest.approx(one["log"]["grad_norm"], rel=1e-4)
    for name, weight in one["weights"].items():
        torch.testing.assert_close(two["weights"][name], weight, rtol=1e-4, atol=1e-6)
