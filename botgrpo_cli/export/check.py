"""Whether what was written computes what was trained: it is loaded again and its logits on a probe are compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoTokenizer

from botgrpo_cli.errors import RunError
from botgrpo_cli.policy.load import Policy

PROBE = "Add 17 and 25. Then write a small web page that shows the sum, and box it."
# Of the largest logit. The same weights in the same format give the same bits; merging adapters in float32 moves 1e-6.
LIMIT = 1e-3


@torch.no_grad()
def logits(model: torch.nn.Module, ids: list[int]) -> Tensor:
    """Shape: [T, V], float32 on the CPU."""
    device = next(model.parameters()).device
    return model(torch.tensor([ids], device=device)).logits[0].float().cpu()


def require_same(found: Tensor, wanted: Tensor, what: str) -> None:
    """Shapes: [T, V] each. `what` begins the sentence of the error.

    Raises:
        RunError: a logit is off by more than LIMIT of the largest one, or is no number.
    """
    if found.shape == wanted.shape:
        gap, largest = (found - wanted).abs().max().item(), wanted.abs().max().item()
        if gap <= LIMIT * largest:  # false for NaN too
            return
        how = f"logits of a probe differ by {gap:.3g}, where the largest is {largest:.3g}"
    else:
        how = f"there are {list(found.shape)} logits instead of {list(wanted.shape)}"
    raise RunError(f"{what} does not compute what was trained: {how}. Nothing was kept.")


def check_folder(place: Path, policy: Policy, wanted: Tensor, load: Callable[[], torch.nn.Module]) -> None:
    """Compare the files in `place`, whose model `load` reads, with the policy that wrote them: `wanted` [T, V] are its
    logits of PROBE.

    Raises:
        RunError: prompts become other tokens, or tokens other logits.
    """
    tokenizer = AutoTokenizer.from_pretrained(place)
    ids = replace(policy, tokenizer=tokenizer).encode(PROBE)
    if ids != policy.encode(PROBE):
        raise RunError("The tokenizer that was written makes other tokens of a probe prompt. Nothing was kept.")
    require_same(logits(load().eval(), ids), wanted, "What was written")
