"""Decoders: the forward pass of the sampler, with a KV cache whose rows can be expanded and dropped.

`GenericDecoder` runs any transformers causal LM, `FusedDecoder` (fused.py) Llama and Qwen2 shapes with far fewer
calls. Which one runs is decided by comparing their logits at load.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import DynamicCache

from botgrpo_cli.policy.fused import FusedDecoder
from botgrpo_cli.policy.load import Policy
from botgrpo_cli.policy.sharding import whole


class Decoder(Protocol):
    def prefill(self, ids: Tensor, attention: Tensor, room: int) -> Tensor:
        """ids, attention [P, S], left-padded -> logits [P, V] after the last token. Starts a new cache with
        room for `room` more tokens."""
        ...

    def expand(self, copies: int) -> None:
        """[P] rows -> [P * copies], the copies of a row side by side."""
        ...

    def step(self, tokens: Tensor) -> Tensor:
        """tokens [B] -> logits [B, V]."""
        ...

    def keep(self, rows: Tensor) -> None:
        """Drop every row whose index is not in `rows` [B']."""
        ...

    def refresh(self) -> None:
        """Take over the weights of the model after an update."""
        ...

    def sampling(self) -> contextlib.AbstractContextManager[None]:
        """Entered around a whole batch of rollouts: the weights are as sampling wants them inside."""
        ...


class GenericDecoder:
    """Any transformers causal LM, through its own forward pass and `DynamicCache`, adapters merged meanwhile."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.cache = DynamicCache()
        self.attention = torch.empty(0)
        # transformers is renaming this argument; the model says which name it takes
        parameters = inspect.signature(policy.causal_lm.forward).parameters
        self.cache_argument = "cache" if "cache" in parameters else "past_key_values"

    def refresh(self) -> None:
        """Nothing is copied, so nothing is to be taken over."""

    def sampling(self) -> contextlib.AbstractContextManager[None]:
        return merged(self.policy)

    def prefill(self, ids: Tensor, attention: Tensor, room: int) -> Tensor:
        self.cache = DynamicCache()
        self.attention = attention
        return self._forward(ids, (attention.cumsum(-1) - 1).clamp(min=0))

    def expand(self, copies: int) -> None:
        self.cache.batch_repeat_interleave(copies)
        self.attention = self.attention.repeat_interleave(copies, 0)

    def step(self, tokens: Tensor) -> Tensor:
        self.attention = F.pad(self.attention, (0, 1), value=1)
        return self._forward(tokens[:, None], self.attention.sum(-1, keepdim=True) - 1)

    def keep(self, rows: Tensor) -> None:
        self.cache.batch_select_indices(rows)
        self.attention = self.attention[rows]

    def _forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        with self.policy.autocast():
            out = self.policy.causal_lm(
                input_ids=ids,
                attention_mask=self.attention,
                position_ids=positions,
                use_cache=True,
                logits_to_keep=1,
                **{self.cache_argument: self.cache},
            )
        return out.logits[:, -1].float()


class ReplicaDecoder(GenericDecoder):
    """The generic decoder on a whole copy of a model that is about to be sharded: samplers run for different lengths,
    and a sharded model's forward pass takes all processes."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(replace(policy, model=copy.deepcopy(policy.model).to(policy.compute_dtype)))
        self.sharded = policy

    @torch.no_grad()
    def refresh(self) -> None:
        copies = self.policy.trainable()
        for name, p in self.sharded.trainable().items():
            copies[name].copy_(whole(p.detach()))


def choose_decoder(policy: Policy, *, to_be_sharded: bool = False) -> Decoder:
    """The fused decoder where it gives the model's own distribution on a ragged probe, else the generic one, with a
    copy of the weights where the policy is to be sharded."""
    fused = FusedDecoder(policy) if FusedDecoder.fits(policy) else None
    if fused is None or not agree(policy, fused):
        return ReplicaDecoder(policy) if to_be_sharded else GenericDecoder(policy)
    return fused


@torch.no_grad()
def agree(policy: Policy, fused: FusedDecoder) -> bool:
    """Whether both decoders give the same distribution for the last token of two prompts of unlike length.

    A wrong shape or rotation shows as a divergence of whole nats; rounding stays far below the tolerance.
    """
    generic = GenericDecoder(policy)
    tolerance = 1e-4 if policy.compute_dtype == torch.float32 else 2e-2
    text = policy.encode("Write a short greeting for the reader.")
    ids, attention = left_pad([text, text[:-3]], policy.pad_id, policy.device)
    for decoder in (fused, generic):
        decoder.prefill(ids, attention, 2)
    next_tokens = ids[:, -1]  # [2]
    p, q = (decoder.step(next_tokens).double().log_softmax(-1) for decoder in (generic, fused))  # [2, V]
    divergence = (p.exp() * (p - q)).sum(-1)  # [2] KL(generic || fused)
    return float(divergence.max()) < tolerance


def left_pad(prompts: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """(ids [P, S], attention [P, S]); all rows end in the same column, where decoding goes on."""
    width = max(map(len, prompts))
    ids = [[pad_id] * (width - len(p)) + list(p) for p in prompts]
    lengths = torch.tensor([len(p) for p in prompts])
    attention = (torch.arange(width) >= width - lengths[:, None]).long()
    return torch.tensor(ids, device=device), attention.to(device)


@contextlib.contextmanager
def merged(policy: Policy) -> Iterator[None]:
    """Adapters merged for the body, base weights put back bit for bit after it (the generic decoder's way)."""
    if not policy.has_adapters:
        yield
        return
    from peft.tuners.tuners_utils import BaseTunerLayer

    layers = [m for m in policy.model.modules() if isinstance(m, BaseTunerLayer)]
    kept = [m.get_base_layer().weight.detach().clone() for m in layers]
    policy.model.merge_adapter()
    try:
        yield
    finally:
        policy.model.unmerge_adapter()
        with torch.no_grad():
            for layer, weight in zip(layers, kept, strict=True):
                layer.get_base_layer().weight.copy_(weight)
