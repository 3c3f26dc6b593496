"""Log-probabilities of the sampled ids under the current weights, with gradients.

The head runs at completion positions only, in row chunks, and its log-softmax is float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from botgrpo_cli.policy.load import Policy
from botgrpo_cli.policy.shared import Layout, attending, lay_out

CHUNK_ROWS = 1024  # completion positions a head call: bounds the float32 [rows, vocabulary] buffer


@dataclass(frozen=True)
class Sequences:
    """Prompt and completion ids of some rollouts, right-padded, trimmed to the longest.

    There is no attention mask: attention is causal and padding stands last, so no real position sees it, and the
    kernels for plain causal attention are the fast ones.
    """

    ids: Tensor  # [B, S]
    mask: Tensor  # [B, T] 1 on completion tokens
    source: Tensor  # [N] flat index into [B * S] of the position that predicts each completion token
    target: Tensor  # [N] the completion ids, row by row
    layout: Layout | None = None  # the same tokens with each prompt once, where the model can be run that way


def pack(
    prompts: Sequence[Sequence[int]],
    completions: Sequence[Sequence[int]],
    policy: Policy,
    *,
    share: bool | None = None,
) -> Sequences:
    """Rectangles from lists. Masks come from lengths, never from `!= pad_id`.

    `share` lays each prompt out once (`policy/shared.py`); None asks whether the policy can be run that way.
    """
    share = shares_prompts(policy) if share is None else share
    rows = [[*p, *c] for p, c in zip(prompts, completions, strict=True)]
    width = max(map(len, rows))
    ids = torch.tensor([row + [policy.pad_id] * (width - len(row)) for row in rows])  # [B, S]
    taken = torch.tensor([len(c) for c in completions])  # [B]
    mask = torch.arange(max(1, int(taken.max()))) < taken[:, None]  # [B, T]
    source = [
        i * width + len(p) - 1 + t
        for i, (p, c) in enumerate(zip(prompts, completions, strict=True))
        for t in range(len(c))
    ]
    target = [token for c in completions for token in c]
    device = policy.device
    return Sequences(
        ids.to(device),
        mask.to(device),
        torch.tensor(source, dtype=torch.long, device=device),
        torch.tensor(target, dtype=torch.long, device=device),
        lay_out(prompts, completions).to(device) if share else None,
    )


class SelectedLogProb(torch.autograd.Function):
    """log softmax(hidden @ weight.T / temperature)[target] and the entropy, without keeping [N, V] for backward.

    Shape: hidden [N, H], weight [V, H], target [N] -> log-probabilities [N] and entropies [N], float32.
    The backward pass computes the logits again chunk by chunk: one more head matmul instead of N x V floats.
    """

    @staticmethod
    def forward(ctx, hidden: Tensor, weight: Tensor, target: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        weight_used = weight.to(hidden.dtype)
        selected, entropy, log_z = [], [], []
        for h, t in zip(hidden.split(CHUNK_ROWS), target.split(CHUNK_ROWS), strict=True):
            log_p = torch.nn.functional.linear(h, weight_used).float().div_(temperature)  # [n, V], logits so far
            z = log_p.logsumexp(-1)  # [n]
            log_p.sub_(z[:, None])
            selected.append(log_p.gather(-1, t[:, None]).squeeze(-1))
            entropy.append(-torch.bmm(log_p.exp()[:, None], log_p[..., None]).flatten())
            log_z.append(z)
        ctx.save_for_backward(hidden, weight, target, torch.cat(log_z))
        ctx.temperature = temperature
        out_entropy = torch.cat(entropy)
        ctx.mark_non_differentiable(out_entropy)
        return torch.cat(selected), out_entropy

    @staticmethod
    def backward(ctx, grad: Tensor, _entropy: Tensor):
        hidden, weight, target, log_z = ctx.saved_tensors
        weight_used = weight.to(hidden.dtype)
        grad_hidden = []
        grad_weight = torch.zeros_like(weight, dtype=torch.float32) if ctx.needs_input_grad[1] else None
        chunks = zip(
            hidden.split(CHUNK_ROWS),
            target.split(CHUNK_ROWS),
            log_z.split(CHUNK_ROWS),
            grad.split(CHUNK_ROWS),
            strict=True,
        )
        for h, t, z, g in chunks:
            g = (g / ctx.temperature)[:, None]  # [n, 1]
            d = torch.nn.functional.linear(h, weight_used).float().div_(ctx.temperature)  # [n, V]
            d = d.sub_(z[:, None]).exp_().mul_(-g).scatter_add_(-1, t[:, None], g).to(hidden.dtype)  # [n, V]
            grad_hidden.append(d @ weight_used)
            if grad_weight is not None:
                grad_weight += (d.T @ h).float()
        return torch.cat(grad_hidden), None if grad_weight is None else grad_weight.to(weight.dtype), None, None


def completion_logprobs(policy: Policy, batch: Sequences, temperature: float) -> tuple[Tensor, Tensor]:
    """(log-probabilities [B, T], entropies [B, T]) of the completion tokens; 0 where the mask is 0.

    Logits are divided by the sampling temperature, for the new, old and reference policy alike, so that the
    ratio compares the distributions that were sampled from.
    """
    with policy.autocast():
        if plain_head(policy):
            rows = predicting_states(policy, batch).to(policy.compute_dtype)  # [N, H]
            head = policy.causal_lm.get_output_embeddings().weight  # [V, H]
            with torch.autocast(policy.device.type, enabled=False):
                selected, entropy = SelectedLogProb.apply(rows, head, batch.target, temperature)
        else:
            logits = policy.causal_lm(input_ids=batch.ids, use_cache=False).logits
            log_p = torch.log_softmax(logits.flatten(0, 1)[batch.source].float() / temperature, -1)  # [N, V]
            selected = log_p.gather(-1, batch.target[:, None]).squeeze(-1)
            entropy = -(log_p.detach().exp() * log_p.detach()).sum(-1)
    return scatter(selected, batch.mask), scatter(entropy.detach(), batch.mask)


def predicting_states(policy: Policy, batch: Sequences) -> Tensor:
    """Last hidden states of the positions that predict the completion tokens, row by row. Shape: [N, H]."""
    model, layout = policy.causal_lm, batch.layout
    if layout is None:
        hidden = model.base_model(input_ids=batch.ids, use_cache=False).last_hidden_state  # [B, S, H]
        return hidden.flatten(0, 1)[batch.source]
    with attending(model):
        hidden = model.base_model(
            input_ids=layout.ids[None],
            position_ids=layout.positions[None],
            use_cache=False,
            shared_layout=layout,
        ).last_hidden_state  # [1, row, H]
    return hidden[0][layout.rectangle[batch.source]]


def scatter(flat: Tensor, mask: Tensor) -> Tensor:
    """[N] values, row by row -> [B, T]."""
    return torch.zeros(mask.shape, dtype=flat.dtype, device=flat.device).masked_scatter(mask, flat)


def plain_head(policy: Policy) -> bool:
    """Whether logits are `head(hidden)` and nothing else. Some models scale or cap them (Gemma, Granite, Cohere):
    asked of the model itself, once, by comparing both ways on a few ids."""
    known = getattr(policy, "_plain_head", None)
    if known is None:
        known = policy._plain_head = _compare_heads(policy)
    return known


@torch.no_grad()
def _compare_heads(policy: Policy) -> bool:
    model = policy.causal_lm
    head = model.get_output_embeddings()
    if type(head) is not torch.nn.Linear or head.bias is not None:
        return False
    ids = torch.arange(8, device=policy.device)[None] % model.config.get_text_config().vocab_size  # [1, 8]
    expected = model(input_ids=ids, use_cache=False).logits
    found = head(model.base_model(input_ids=ids, use_cache=False).last_hidden_state)
    return torch.allclose(expected.float(), found.float(), rtol=1e-3, atol=1e-3)


def shares_prompts(policy: Policy) -> bool:
    """Whether the update may run each prompt once: asked of the model itself, once, by comparing both ways."""
    known = getattr(policy, "_shares_prompts", None)
    if known is None:
        policy._shares_prompts = False  # also if the comparison fails
        known = policy._shares_prompts = plain_head(policy) and _compare_layouts(policy)
    return known


@torch.no_grad()
def _compare_layouts(policy: Policy) -> bool:
    """Two ragged completions each of two prompts. A model that looks at more than positions (a window, a bias, state
    that runs along the row) differs by whole nats; rounding stays far below the tolerance."""
    ids = policy.encode("Write a short greeting for the reader.")
    prompts = [ids, ids[:-3], ids, ids[:-3]]
    completions = [ids[:7], ids[2:5], ids[1:3], ids[3:9]]
    try:
        found, _ = completion_logprobs(policy, pack(prompts, completions, policy, share=True), 1.0)
    except (TypeError, ValueError, RuntimeError, KeyError):  # a model that takes no such arguments
        return False
    expected, _ = completion_logprobs(policy, pack(prompts, completions, policy, share=False), 1.0)
    tolerance = 1e-3 if policy.compute_dtype == torch.float32 else 0.2  # bfloat16 differs by 0.01 to 0.1
    return float((found - expected).abs().mean()) < tolerance
