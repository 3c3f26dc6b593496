"""How far a step is from what the machine's matmuls allow, and how much memory each side takes."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from botgrpo_cli.policy.load import Policy


def matmul_rate(policy: Policy, rows: int, *, seconds: float = 1.0) -> float:
    """Floating-point operations a second of the policy's own shapes: `rows` hidden states through its MLP and back."""
    config = policy.causal_lm.config.get_text_config()
    dtype = policy.compute_dtype
    x = torch.randn(rows, config.hidden_size, dtype=dtype)
    up = torch.randn(config.intermediate_size, config.hidden_size, dtype=dtype)
    for _ in range(3):
        y = torch.nn.functional.linear(x, up)
    done, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        y = torch.nn.functional.linear(x, up)
        torch.nn.functional.linear(y, up.T)
        done += 2
    return done * 2.0 * rows * up.numel() / (time.perf_counter() - started)


def flops_a_token(policy: Policy) -> tuple[float, float]:
    """(of the layers, of the head) for one token forward: 2 a weight. Attention scores are left out (a few percent)."""
    model = policy.causal_lm
    head = model.get_output_embeddings().weight.numel()
    tied = model.config.get_text_config().tie_word_embeddings
    every = sum(p.numel() for p in model.parameters())
    return 2.0 * (every - head * (1 if tied else 2)), 2.0 * head


def seconds_at_limit(policy: Policy, rates: dict[str, float], prompts: int, group_size: int, prompt: int, tokens: int):
    """Seconds a step would take if it were matmuls alone: {"sample", "update"}.

    `tokens` are the completion tokens of the whole step. Sampling: each prompt once, each token once, layers and head.
    The update: forward once, backward twice that; the head is run once more in the backward pass, at completion tokens
    only. With adapters the backward pass needs no gradient of frozen weights: once less for the layers and the head.
    """
    layers, head = flops_a_token(policy)
    sample = (prompts * prompt + tokens) * layers + tokens * head
    passes = 2 if policy.has_adapters else 3
    update = (prompts * prompt + tokens) * layers * passes + tokens * head * (passes + 1)
    return {"sample": sample / rates["sample"], "update": update / rates["update"]}


def peak_memory(arguments: Sequence[str]) -> dict[str, float]:
    """Peak resident memory in GB of each side: two steps in a process of its own."""
    found = {}
    for side in ("botgrpo", "trl"):
        command = [sys.executable, sys.argv[0], *arguments, "--side", side]
        answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found[side] = json.loads(answer.strip().splitlines()[-1])["peak_gb"]
    return found


def own_peak() -> dict[str, Any]:
    """Of this process. On Linux from VmHWM: ru_maxrss there begins with what the parent had when it forked."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return {"peak_gb": int(line.split()[1]) * 1024 / 1e9}
    return {"peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e9}  # bytes on macOS
