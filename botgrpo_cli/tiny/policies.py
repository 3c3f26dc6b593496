"""The shipped starting policies and how each was made."""

from __future__ import annotations

from botgrpo_cli.tiny.build import BuildConfig
from botgrpo_cli.tiny.shapes import Architecture
from botgrpo_cli.tiny.texts import Stage

BYTES = 256 + 3  # the bytes and the special tokens: no merges


def react(architecture: Architecture) -> BuildConfig:
    """Damage so that all start with 3 to 6 % that compile."""
    return BuildConfig("react", architecture, (Stage(1200, damage=0.22),), copy_batches=250, emphasis=10.0)


def aime(architecture: Architecture) -> BuildConfig:
    """Short chains first, which teach the texts and the arithmetic cheaply; damage last, once the task is known.

    SmolLM3's shape learns the arithmetic last: after 850 batches of long chains it still got one small subtraction in
    fifty wrong.
    """
    long_chains = 1200 if architecture == "smollm3" else 850
    stages = (
        Stage(60, operations=(1, 3)),
        Stage(100, operations=(1, 6)),
        Stage(120, operations=(1, 10)),
        Stage(long_chains, operations=(1, 14)),
        Stage(350, damage=0.2, operations=(1, 14)),
    )
    return BuildConfig("aime", architecture, stages, emphasis=3.0, vocabulary=BYTES, hidden=128, intermediate=384)


POLICIES = {
    f"{text.__name__}-{architecture}": text(architecture)
    for text in (react, aime)
    for architecture in ("qwen2", "smollm3", "phi3")
}
