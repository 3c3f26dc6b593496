"""Causal attention for bfloat16 on the CPU, where the backward pass of torch's fused kernel is the slow part.

Measured on one core (8 rows, 9 query and 3 key heads of 64, 253 positions), forward and backward in milliseconds: fused
14 + 55, this 14 + 14. In float32 the fused kernel is the faster one (18 + 42 v. 35 + 54), so it stays there.
"""

from __future__ import annotations

import torch
from torch import Tensor


def pays(query: Tensor) -> bool:
    """Whether this implementation is the faster one for such a tensor."""
    return query.device.type == "cpu" and query.dtype == torch.bfloat16


class CausalAttention(torch.autograd.Function):
    """softmax(q k^T scale, causal) v, in plain matmuls that keep the attention weights for the backward pass.

    Scores are rounded to the input's type before the softmax (as in transformers' eager attention); sums are float32
    inside the kernels. Query heads that share a key head go through one matmul.

    Shapes: query [B, H, S, D], key and value [B, H_kv, S, D], result [B, H, S, D].
    """

    @staticmethod
    def forward(ctx, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        b, h, s, d = query.shape
        kv = key.shape[1]
        q = (query * scale).reshape(b * kv, h // kv * s, d)  # [B H_kv, R S, D]
        k, v = key.reshape(b * kv, s, d), value.reshape(b * kv, s, d)
        later = torch.full((s, s), -torch.inf, dtype=q.dtype, device=q.device).triu_(1)  # [S, S]
        scores = torch.bmm(q, k.transpose(1, 2)).view(b * kv, h // kv, s, s).add_(later)
        weights = torch.softmax(scores, -1).view(b * kv, h // kv * s, s)  # [B H_kv, R S, S]
        ctx.save_for_backward(q, k, v, weights)
        ctx.scale, ctx.shape = scale, (b, h, kv, s, d)
        return torch.bmm(weights, v).view(b, h, s, d)

    @staticmethod
    def backward(ctx, grad: Tensor):
        q, k, v, weights = ctx.saved_tensors
        b, h, kv, s, d = ctx.shape
        g = grad.reshape(b * kv, h // kv * s, d)  # [B H_kv, R S, D]
        grad_value = torch.bmm(weights.transpose(1, 2), g)
        grad_weights = torch.bmm(g, v.transpose(1, 2))
        grad_scores = torch._softmax_backward_data(grad_weights, weights, -1, weights.dtype)  # 0 where weights are
        grad_query = torch.bmm(grad_scores, k).mul_(ctx.scale)
        grad_key = torch.bmm(grad_scores.transpose(1, 2), q)
        return grad_query.view(b, h, s, d), grad_key.view(b, kv, s, d), grad_value.view(b, kv, s, d), None
