"""The tiny scale: 1-2 M-parameter policies whose weights the package carries."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from botgrpo_cli.errors import InputError, nearest

WEIGHTS = Path(__file__).parent / "weights"


def weights_folder(name: str) -> Path:
    """Folder of the shipped policy `name`, in the layout that `from_pretrained` reads.

    Raises:
        InputError: there is no such policy in the package.
    """
    there = sorted(p.parent.name for p in WEIGHTS.glob("*/config.json"))
    if name not in there:
        from botgrpo_cli.tiny.policies import POLICIES  # torch comes with it

        if name in POLICIES:
            raise InputError(
                f"policy.model is 'tiny:{name}', whose weights are not in the package. "
                f"`python -m botgrpo_cli.tiny build {name}` makes them, in about a quarter of an hour on one core."
            )
        raise InputError(
            f"policy.model is 'tiny:{name}', but the package carries {', '.join('tiny:' + n for n in there) or 'none'}."
            + nearest(name, there)
        )
    return WEIGHTS / name


@cache
def weights_digest(model: str) -> str | None:
    """What tells the weights and tokenizer of `tiny:NAME` from those of another version; None for other models."""
    kind, _, name = model.partition(":")
    if kind != "tiny" or not (WEIGHTS / name / "config.json").is_file():
        return None
    found = hashlib.sha256()
    for file in ("config.json", "tokenizer.json", "model.safetensors"):
        found.update((WEIGHTS / name / file).read_bytes())
    return found.hexdigest()[:16]
