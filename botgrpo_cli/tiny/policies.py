"""The shipped starting policies and how each was made."""

from __future__ import annotations

from botgrpo_cli.tiny.build import BuildConfig
from botgrpo_cli.tiny.shapes import Architecture
from botgrpo_cli.tiny.texts import Stage

BYTES = 256 + 3  # the bytes and the special tokens: no merges
# `AutoTokenizer` cuts prompts for these in other pieces than they were trained on. With the right ones react-qwen2
# compiles in 5.5 % instead of 3.1 % of samples, greedy in 100 % instead of 80 %.
WRONG_PIECES = ("react-qwen2",)


def react(architecture: Architecture) -> BuildConfig:
    """Damage so that all start near 3 % compiling; see `WRONG_PIECES`."""
    damage = 0.20 if f"react-{architecture}" in WRONG_PIECES else 0.22
    return BuildConfig("react", architecture, (Stage(1200, damage=damage),), copy_batches=250, emphasis=10.0)


def aime(architecture: Architecture) -> BuildConfig:
    """Short chains first, which teach the texts and the arithmetic cheaply; damage last, once the task is known.

    SmolLM3's shape learns the arithmetic last: after these batches it still gets one small subtraction in fifty wrong.
    """
    stages = (
        Stage(60, operations=(1, 3)),
        Stage(100, operations=(1, 6)),
        Stage(120, operations=(1, 10)),
        Stage(850, operations=(1, 14)),
        Stage(350, damage=0.2, operations=(1, 14)),
    )
    return BuildConfig("aime", architecture, stages, emphasis=3.0, vocabulary=BYTES, hidden=128, intermediate=384)


POLICIES = {
    f"{text.__name__}-{architecture}": text(architecture)
    for text in (react, aime)
    for architecture in ("qwen2", "smollm3", "phi3")
}

NOT_SHIPPED = ("react-smollm3", "react-phi3")  # not built yet: half an hour of one core each
