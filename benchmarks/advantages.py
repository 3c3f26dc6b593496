"""Time of the bag-of-token advantages beside the group-relative ones: `python benchmarks/advantages.py`."""

from __future__ import annotations

import statistics
import time

import torch

from botgrpo_cli.methods.advantages import bag_of_tokens, group_relative

SIZES = ((64, 256), (512, 4096))  # rollouts, tokens
GROUP_SIZE = 8


def milliseconds(function, *arguments, repeats: int = 30) -> float:
    """Median time of a call, after three warm-up calls."""
    taken = []
    for n in range(repeats + 3):
        start = time.perf_counter()
        function(*arguments)
        if n >= 3:
            taken.append((time.perf_counter() - start) * 1e3)
    return statistics.median(taken)


def main() -> None:
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, CPU, median of 30, groups of {GROUP_SIZE}")
    for rollouts, tokens in SIZES:
        lengths = torch.randint(tokens // 4, tokens + 1, (rollouts,))  # [B]
        mask = torch.arange(tokens)[None, :] < lengths[:, None]  # [B, T]
        rewards = torch.randn(rollouts, tokens)  # [B, T]
        group = torch.arange(rollouts) // GROUP_SIZE  # [B]
        bag = milliseconds(bag_of_tokens, rewards, mask, group)
        single = milliseconds(group_relative, rewards, mask, group)
        print(f"B={rollouts:<4} T={tokens:<5} bag_of_tokens {bag:7.3f} ms   group_relative {single:7.3f} ms")


if __name__ == "__main__":
    main()
