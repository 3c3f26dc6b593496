"""The update's forward pass without repeated work: each prompt once, and no padding.

A micro-batch holds several completions of one prompt. Laid out as one row, [prompt, completion 1, completion 2, ...],
every linear layer, norm and activation runs once a token; only attention needs each completion behind its prompt, and
for it queries, keys and values are copied into a rectangle, [prompt, completion] a row, where plain causal attention
(the fast kernel) applies: padding stands last, so no real position sees it.

It works through transformers' attention interface, so for any model whose layers treat positions alone and take
`position_ids`. `shares_prompts` in logprobs.py asks the model itself, once, whether the log-probabilities agree.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from botgrpo_cli.policy.causal import CausalAttention, pays

NAME = "botgrpo_shared_prompt"


@dataclass(frozen=True)
class Layout:
    """Where each token stands in the row [N] and in the rectangle [B, S]."""

    ids: Tensor  # [N] every prompt once, every completion once
    positions: Tensor  # [N] position of each token in its own sequence
    rectangle: Tensor  # [B * S] index into [N]; 0 at padding
    shape: tuple[int, int]  # (B, S)
    home: Tensor  # [N] index into [B * S] of each token, for prompt tokens that of its first copy
    copied: Tensor  # [M] tokens that stand in the rectangle more than once
    copies: Tensor  # [M, K - 1] index into [B * S] of their further copies; B * S where there is none

    def to(self, device: torch.device) -> Layout:
        tensors = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "shape"}
        return Layout(**{name: tensor.to(device) for name, tensor in tensors.items()}, shape=self.shape)


def lay_out(prompts: Sequence[Sequence[int]], completions: Sequence[Sequence[int]]) -> Layout:
    """Rows with the same prompt ids share them, wherever they stand in the batch. All tensors on the CPU."""
    first: dict[tuple[int, ...], int] = {}  # prompt -> place of its first token in the row
    ids: list[int] = []
    positions: list[int] = []
    home: list[int] = []
    width = max(len(p) + len(c) for p, c in zip(prompts, completions, strict=True))
    rectangle = torch.zeros(len(prompts), width, dtype=torch.int64)  # [B, S]
    further: dict[int, list[int]] = {}  # place in the row -> further copies
    for row, (prompt, completion) in enumerate(zip(prompts, completions, strict=True)):
        key, start = tuple(prompt), row * width
        if key in first:
            for t in range(len(key)):
                further.setdefault(first[key] + t, []).append(start + t)
        else:
            first[key] = len(ids)
            ids += key
            positions += range(len(key))
            home += range(start, start + len(key))
        rectangle[row, : len(key)] = torch.arange(first[key], first[key] + len(key))
        rectangle[row, len(key) : len(key) + len(completion)] = torch.arange(len(ids), len(ids) + len(completion))
        ids += completion
        positions += range(len(key), len(key) + len(completion))
        home += range(start + len(key), start + len(key) + len(completion))
    most = max(map(len, further.values()), default=0)
    none = rectangle.numel()
    copies = [places + [none] * (most - len(places)) for places in further.values()]
    return Layout(
        ids=torch.tensor(ids),
        positions=torch.tensor(positions),
        rectangle=rectangle.flatten(),
        shape=(len(prompts), width),
        home=torch.tensor(home),
        copied=torch.tensor(list(further), dtype=torch.int64),
        copies=torch.tensor(copies, dtype=torch.int64).view(len(copies), most),
    )


class ToRectangle(torch.autograd.Function):
    """[N, ...] -> [B * S, ...] with copies; backward adds the copies up with gathers alone (an index_add is slow)."""

    @staticmethod
    def forward(ctx, row: Tensor, layout: Layout) -> Tensor:
        ctx.layout = layout
        return row.index_select(0, layout.rectangle)

    @staticmethod
    def backward(ctx, grad: Tensor):
        layout: Layout = ctx.layout
        total = grad.index_select(0, layout.home)  # [N, ...]
        if layout.copies.numel():
            padded = torch.cat([grad, grad.new_zeros(1, *grad.shape[1:])])  # [B * S + 1, ...]
            more = padded[layout.copies].sum(1)  # [M, ...]
            total[layout.copied] += more
        return total, None


class FromRectangle(torch.autograd.Function):
    """[B * S, ...] -> [N, ...]; what other copies of a token hold is dropped, and gets no gradient."""

    @staticmethod
    def forward(ctx, cells: Tensor, layout: Layout) -> Tensor:
        ctx.layout, ctx.cells = layout, cells.shape[0]
        return cells.index_select(0, layout.home)

    @staticmethod
    def backward(ctx, grad: Tensor):
        back = grad.new_zeros(ctx.cells, *grad.shape[1:])
        back[ctx.layout.home] = grad  # every cell at most once
        return back, None


def attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    shared_layout: Layout | None = None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **kwargs,
) -> tuple[Tensor, None]:
    """Plain SDPA, or, where a layout comes through the model's keyword arguments, causal attention in its rectangle.

    Shapes: query [1, H, N, D], key and value [1, H_kv, N, D], result [1, N, H, D].
    """
    if shared_layout is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    rows, width = shared_layout.shape

    def cells(x: Tensor) -> Tensor:  # [1, H, N, D] -> [B, H, S, D]
        row = x[0].transpose(0, 1).contiguous()  # [N, H, D]
        return ToRectangle.apply(row, shared_layout).unflatten(0, (rows, width)).transpose(1, 2)

    q, k, v = cells(query), cells(key), cells(value)
    if sliding_window is not None and sliding_window < width:
        place = torch.arange(width, device=q.device)
        back = place[:, None] - place  # [S, S]
        mask = ((back >= 0) & (back < sliding_window))[None, None]
        found, _ = sdpa_attention_forward(module, q, k, v, mask, scaling=scaling, **kwargs)  # [B, S, H, D]
    elif pays(q):
        scale = scaling if scaling is not None else q.shape[-1] ** -0.5
        found = CausalAttention.apply(q, k, v, scale).transpose(1, 2)  # [B, S, H, D]
    else:
        found, _ = sdpa_attention_forward(module, q, k, v, None, scaling=scaling, **kwargs)  # [B, S, H, D]
    return FromRectangle.apply(found.flatten(0, 1), shared_layout)[None], None


AttentionInterface.register(NAME, attention)


@contextlib.contextmanager
def attending(model: PreTrainedModel) -> Iterator[None]:
    """Let the layers of `model` ask for `attention`; saved configs and other forward passes see nothing of it."""
    config = model.config.get_text_config()
    kept = config._attn_implementation
    config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = kept
