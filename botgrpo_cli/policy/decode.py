"""Decoders: the forward pass of the sampler, with a KV cache whose rows can be expanded and dropped.

`GenericDecoder` runs any transformers causal LM. `FusedDecoder` runs Llama- and Qwen2-shaped models with a
fraction of the calls a step: q, k and v in one matmul, gate and up in another, rotary embedding as one complex
product, adapters merged into its own copy of the weights, the cache written in place. Decoding a small model is
bound by calls, not by arithmetic. Which one runs is decided by comparing their logits at load.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import DynamicCache

from botgrpo_cli.policy.load import Policy


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


class FusedDecoder:
    """Llama and Qwen2 shapes: pre-norm, RMSNorm, rotary embedding, gated SiLU, full attention."""

    FAMILIES = ("llama", "qwen2")

    def __init__(self, policy: Policy) -> None:
        model = policy.causal_lm
        config = model.config
        self.policy, self.dtype = policy, policy.compute_dtype
        self.heads = config.num_attention_heads
        self.kv_heads = config.num_key_value_heads
        self.head_dim = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.eps = config.rms_norm_eps
        self.hidden = config.hidden_size
        self.layers: list[dict[str, Tensor | None]] = []
        self.refresh()

    @classmethod
    def fits(cls, policy: Policy) -> bool:
        config = policy.causal_lm.config
        sliding = any(kind != "full_attention" for kind in getattr(config, "layer_types", None) or ())
        plain = config.model_type in cls.FAMILIES and getattr(config, "hidden_act", "") == "silu" and not sliding
        return plain and policy.device.type in ("cpu", "cuda")

    @torch.no_grad()
    def refresh(self) -> None:
        model = self.policy.causal_lm
        half = torch.arange(self.head_dim // 2)
        # Pairs (i, i + D/2) become neighbours, so that the rotation is one complex product. q and k are permuted
        # alike, and their dot product does not change.
        order = torch.stack((half, half + self.head_dim // 2), -1).flatten()
        self.layers = []
        for layer in model.base_model.layers:
            attention, mlp = layer.self_attn, layer.mlp
            q, k = (self._rows(p, order) for p in (attention.q_proj, attention.k_proj))
            v = self._merged(attention.v_proj)
            biases = [part[1] for part in (q, k, v)]
            self.layers.append(
                {
                    "norm1": layer.input_layernorm.weight.to(self.dtype),
                    "qkv": torch.cat([q[0], k[0], v[0]]),
                    "qkv_bias": None if biases[0] is None else torch.cat(biases),
                    "out": self._merged(attention.o_proj)[0],
                    "norm2": layer.post_attention_layernorm.weight.to(self.dtype),
                    "gate_up": torch.cat([self._merged(mlp.gate_proj)[0], self._merged(mlp.up_proj)[0]]),
                    "down": self._merged(mlp.down_proj)[0],
                }
            )
        self.norm = model.base_model.norm.weight.to(self.dtype)
        self.embedding = model.get_input_embeddings().weight.to(self.dtype)
        self.head = model.get_output_embeddings().weight.to(self.dtype)

    def sampling(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()  # its own copy of the weights has the adapters in it

    def _merged(self, module: torch.nn.Module) -> tuple[Tensor, Tensor | None]:
        """(weight, bias) of a linear module, its adapters added in float32 and never written back: merging into
        the model and out again would round the base weights a little at every step."""
        weight, bias = module.weight, getattr(module, "bias", None)
        if hasattr(module, "lora_A"):
            for name in module.active_adapters:
                weight = weight.float() + module.get_delta_weight(name).float()
        return weight.to(self.dtype), None if bias is None else bias.to(self.dtype)

    def _rows(self, module: torch.nn.Module, order: Tensor) -> tuple[Tensor, Tensor | None]:
        weight, bias = self._merged(module)
        weight = weight.view(-1, self.head_dim, weight.shape[-1])[:, order].flatten(0, 1)
        return weight, None if bias is None else bias.view(-1, self.head_dim)[:, order].flatten()

    def prefill(self, ids: Tensor, attention: Tensor, room: int) -> Tensor:
        rows, width = ids.shape
        self.used = 0
        self.limit = width + room
        shape = (rows, self.kv_heads, self.limit, self.head_dim)
        self.keys = [torch.empty(shape, dtype=self.dtype, device=ids.device) for _ in self.layers]
        self.values = [torch.empty(shape, dtype=self.dtype, device=ids.device) for _ in self.layers]
        self.padding = width - attention.sum(-1)  # [P] left padding of each row
        ragged = bool(self.padding.any())
        columns = torch.arange(self.limit, device=ids.device)
        # [P, L] added to the attention scores; None where no row is padded
        self.bias = torch.zeros((rows, self.limit), dtype=self.dtype, device=ids.device) if ragged else None
        if ragged:
            self.bias.masked_fill_(columns < self.padding[:, None], torch.finfo(self.dtype).min)
        self.rotation = self._rotation(self.limit)  # [L, D/2] complex
        causal = columns[None, :width] <= columns[:width, None]  # [S, S]
        mask = causal[None, None].expand(rows, 1, width, width)
        if ragged:
            real = (columns[:width] >= self.padding[:, None])[:, None, None]  # [P, 1, 1, S]
            # a padded query looks at itself, so that its softmax has something to sum
            mask = mask & (real | torch.eye(width, dtype=torch.bool, device=ids.device))
        return self._forward(ids, mask)

    def expand(self, copies: int) -> None:
        self.keys = [k.repeat_interleave(copies, 0) for k in self.keys]
        self.values = [v.repeat_interleave(copies, 0) for v in self.values]
        self.padding = self.padding.repeat_interleave(copies, 0)
        self.bias = None if self.bias is None else self.bias.repeat_interleave(copies, 0)

    def step(self, tokens: Tensor) -> Tensor:
        return self._forward(tokens[:, None], None)

    def keep(self, rows: Tensor) -> None:
        for cache in (self.keys, self.values):
            for i, old in enumerate(cache):
                new = old.new_empty((len(rows), *old.shape[1:]))
                new[:, :, : self.used] = old[rows, :, : self.used]
                cache[i] = new
        self.padding = self.padding[rows]
        self.bias = None if self.bias is None else self.bias[rows]

    def _rotation(self, length: int) -> Tensor:
        positions = torch.arange(length, device=self.policy.device)[None]
        probe = torch.empty(1, dtype=torch.float32, device=self.policy.device)
        cos, sin = self.policy.causal_lm.base_model.rotary_emb(probe, positions)  # [1, L, D]
        half = self.head_dim // 2
        return torch.complex(cos[0, :, :half].float(), sin[0, :, :half].float())

    def _forward(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        width = ids.shape[1]
        start, self.used = self.used, self.used + width
        positions = torch.arange(start, self.used, device=ids.device) - self.padding[:, None]  # [B, S]
        rotation = self.rotation[positions.clamp_(min=0)][:, :, None]  # [B, S, 1, D/2]
        if mask is None and self.bias is not None:
            mask = self.bias[:, None, None, : self.used]  # [B, 1, 1, used]
        x = F.embedding(ids, self.embedding)  # [B, S, H]
        shape = (self.hidden,)
        for i, layer in enumerate(self.layers):
            attended = self._attention(i, F.rms_norm(x, shape, layer["norm1"], self.eps), rotation, start, mask)
            x = x + F.linear(attended, layer["out"])
            gate, up = F.linear(F.rms_norm(x, shape, layer["norm2"], self.eps), layer["gate_up"]).chunk(2, -1)
            x = x + F.linear(F.silu(gate).mul_(up), layer["down"])
        return F.linear(F.rms_norm(x[:, -1], shape, self.norm, self.eps), self.head).float()

    def _attention(self, i: int, x: Tensor, rotation: Tensor, start: int, mask: Tensor | None) -> Tensor:
        rows, width = x.shape[:2]
        layer = self.layers[i]
        qkv = F.linear(x, layer["qkv"], layer["qkv_bias"]).view(rows, width, -1, self.head_dim)
        rotated = self.heads + self.kv_heads
        pairs = torch.view_as_complex(qkv[:, :, :rotated].float().unflatten(-1, (-1, 2)))  # [B, S, heads, D/2]
        qk = torch.view_as_real(pairs * rotation).flatten(-2).to(self.dtype)
        self.keys[i][:, :, start : self.used] = qk[:, :, self.heads :].transpose(1, 2)
        self.values[i][:, :, start : self.used] = qkv[:, :, rotated:].transpose(1, 2)
        keys, values = self.keys[i][:, :, : self.used], self.values[i][:, :, : self.used]
        queries = qk[:, :, : self.heads]  # [B, S, heads, D]
        if width == 1 and self.dtype == torch.float32:
            # Heads that share keys become query rows of one head: fewer, larger products (slower in bfloat16).
            queries = queries.reshape(rows, self.kv_heads, -1, self.head_dim)
            return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask).reshape(rows, 1, -1)
        grouped = self.heads != self.kv_heads
        out = F.scaled_dot_product_attention(queries.transpose(1, 2), keys, values, attn_mask=mask, enable_gqa=grouped)
        return out.transpose(1, 2).flatten(2)


@torch.no_grad()
def choose_decoder(policy: Policy) -> Decoder:
    """The fused decoder where it gives the model's own distribution on a ragged probe, else the generic one.

    A wrong shape or rotation shows as a divergence of whole nats; rounding stays far below the tolerance.
    """
    generic = GenericDecoder(policy)
    if not FusedDecoder.fits(policy):
        return generic
    fused = FusedDecoder(policy)
    tolerance = 1e-4 if policy.compute_dtype == torch.float32 else 2e-2
    text = policy.encode("Write a short greeting for the reader.")
    ids, attention = left_pad([text, text[:-3]], policy.pad_id, policy.device)
    for decoder in (fused, generic):
        decoder.prefill(ids, attention, 2)
    next_tokens = ids[:, -1]  # [2]
    p, q = (decoder.step(next_tokens).double().log_softmax(-1) for decoder in (generic, fused))  # [2, V]
    divergence = (p.exp() * (p - q)).sum(-1)  # [2] KL(generic || fused)
    return fused if float(divergence.max()) < tolerance else generic


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
