"""One training step of this package beside one of TRL's GRPOTrainer, same policy, same work.

    python benchmarks/vs_trl.py [--threads 1] [--rounds 5] [--json FILE]
    python benchmarks/vs_trl.py --small                # SmolLM2-135M with adapters, 8 prompts x 4, 128 new tokens

A step is sample + score + update. Both sides start from the same weights and take the same prompts, group size,
token limit, micro-batch, objective, learning rate and thread count; the reward costs nothing and has spread. The two
are interleaved, one step of each in turn, so that whatever else the machine does falls on both. Two settings: `eos`
lets rollouts end by themselves, `full` forbids the end tokens, so that both do exactly the same number of tokens.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the policy is local: nothing is to be looked up
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from common import Step, machine, show, summary
from limits import matmul_rate, own_peak, peak_memory, seconds_at_limit
from ours import Load, Ours
from rich.console import Console
from theirs import Theirs

from botgrpo_cli.tasks.react.prompts import load_prompts
from botgrpo_cli.tiny.react import prompts as tiny_prompts

SETTINGS = {"eos": "rollouts end by themselves", "full": "end tokens forbidden"}


def measure(load: Load, rounds: int) -> dict[str, list[Step]]:
    """One warm-up step of each, then `rounds` of each in turn; the warm-ups are left out of the result."""
    ours, ours_done = Ours(load), []

    def our_turn() -> bool:
        ours_done.append(ours.step())
        return len(ours_done) <= rounds

    with tempfile.TemporaryDirectory() as folder:
        theirs = Theirs(load, folder, our_turn)
        theirs.trainer.train()
    done = {"botgrpo": ours_done[1:], "trl": theirs.done[1:]}
    if load.full_length:
        expected = load.completions * load.max_new_tokens
        assert all(step.tokens == expected for steps in done.values() for step in steps), "a rollout ended early"
    return done


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--policy", default="tiny:react-qwen2", help="as policy.model of a recipe (default %(default)s)"
    )
    parser.add_argument("--threads", type=int, default=1, help="torch threads of both sides (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="measured steps of each side (default %(default)s)")
    parser.add_argument("--prompts", type=int, default=8, help="prompts a step (default %(default)s)")
    parser.add_argument("--group-size", type=int, default=8, help="rollouts a prompt (default %(default)s)")
    parser.add_argument("--tokens", type=int, default=200, help="token limit of a rollout (default %(default)s)")
    parser.add_argument("--micro-batch", type=int, default=16, help="rollouts a backward pass (default %(default)s)")
    parser.add_argument("--lora", action="store_true", help="adapters of rank 16, bfloat16 where the CPU has it")
    parser.add_argument("--small", action="store_true", help="SmolLM2-135M with adapters, 8 prompts x 4, 128 tokens")
    parser.add_argument("--settings", default=",".join(SETTINGS), help="eos, full or both (default %(default)s)")
    parser.add_argument("--memory", action="store_true", help="peak memory of each side, in processes of their own")
    parser.add_argument("--side", choices=("botgrpo", "trl"), help=argparse.SUPPRESS)  # what --memory starts
    parser.add_argument("--json", type=Path, help="also write everything measured to this file")
    chosen = parser.parse_args()
    if chosen.small:
        chosen.policy, chosen.lora = "small:smollm2-135m-instruct", True
        chosen.group_size, chosen.tokens, chosen.micro_batch = 4, 128, 8
    if chosen.prompts * chosen.group_size % chosen.micro_batch:
        parser.error("--prompts times --group-size must be a multiple of --micro-batch, or the two sides differ.")
    return chosen


def load_of(chosen: argparse.Namespace, setting: str) -> Load:
    prompts = load_prompts("easy-briefs", "train") if chosen.small else tiny_prompts("train")
    return Load(
        model=chosen.policy,
        prompts=tuple(prompts[: chosen.prompts]),
        group_size=chosen.group_size,
        max_new_tokens=chosen.tokens,
        micro_batch=chosen.micro_batch,
        full_length=setting == "full",
        lora=chosen.lora,
    )


def run_side(load: Load, side: str) -> None:
    """Two steps of one side alone, for its peak memory."""
    if side == "botgrpo":
        ours = Ours(load)
        ours.step()
        ours.step()
    else:
        left = iter((True, False))
        with tempfile.TemporaryDirectory() as folder:
            Theirs(load, folder, lambda: next(left)).trainer.train()
    print(json.dumps(own_peak()))


def limits(load: Load, result: dict[str, Any]) -> dict[str, Any]:
    """Seconds of our sample and update beside what matmuls alone would take at the rate measured now."""
    policy = load.policy()
    rates = {"sample": matmul_rate(policy, load.completions), "update": matmul_rate(policy, 1024)}
    prompt = sum(len(policy.encode(p.text)) for p in load.prompts) / len(load.prompts)
    tokens = result["botgrpo"]["tokens"]
    at = seconds_at_limit(policy, rates, len(load.prompts), load.group_size, prompt, tokens)
    parts = result["botgrpo"]["parts"]
    return {
        "gflops": {name: rate / 1e9 for name, rate in rates.items()},
        "seconds_at_limit": at,
        "share_of_limit": {name: at[name] / parts[name] for name in at},
    }


def main() -> None:
    chosen = options()
    torch.set_num_threads(chosen.threads)
    settings = chosen.settings.split(",")
    if chosen.side:
        run_side(load_of(chosen, settings[0]), chosen.side)
        return
    console = Console(highlight=False, width=120)
    facts = machine(chosen.threads, ("torch", "transformers", "trl"))
    console.print(", ".join(f"{name} {value}" for name, value in facts.items()))
    console.print(
        f"{chosen.policy}: {chosen.prompts} prompts x {chosen.group_size} rollouts, at most {chosen.tokens} tokens, "
        f"micro-batch {chosen.micro_batch}; median of {chosen.rounds} after one warm-up, interleaved\n"
    )
    results = {}
    for setting in settings:
        load = load_of(chosen, setting)
        results[setting] = summary(measure(load, chosen.rounds))
        results[setting]["limits"] = limits(load, results[setting])
        show(console, f"{setting}: {SETTINGS[setting]}", results[setting])
    if chosen.memory:
        results["peak_gb"] = peak_memory([a for a in sys.argv[1:] if a != "--memory"])
        console.print("peak memory, GB: " + ", ".join(f"{k} {v:.2f}" for k, v in results["peak_gb"].items()))
    if chosen.json:
        arguments = {key: value for key, value in vars(chosen).items() if key != "json"}
        chosen.json.write_text(json.dumps({"machine": facts, "options": arguments, **results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
