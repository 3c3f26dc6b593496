"""A decoder for Llama- and Qwen2-shaped models that makes a fraction of the calls a step.

Decoding a small model is bound by calls, not by arithmetic: q, k and v are one matmul here, gate and up another, the
rotary embedding is one complex product, adapters are merged into a copy of the weights, and the cache is written in
place.
"""

from __future__ import annotations

import contextlib

import torch
import torch.nn.functional as F
from torch import Tensor

from botgrpo_cli.policy.load import Policy
from botgrpo_cli.policy.sharding import whole


class FusedDecoder:
    """Llama and Qwen2 shapes: pre-norm, RMSNorm, rotary embedding, gated SiLU, full attention. Implements `Decoder`."""

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
                    "norm1": whole(layer.input_layernorm.weight).to(self.dtype),
                    "qkv": torch.cat([q[0], k[0], v[0]]),
                    "qkv_bias": None if biases[0] is None else torch.cat(biases),
                    "out": self._merged(attention.o_proj)[0],
                    "norm2": whole(layer.post_attention_layernorm.weight).to(self.dtype),
                    "gate_up": torch.cat([self._merged(mlp.gate_proj)[0], self._merged(mlp.up_proj)[0]]),
                    "down": self._merged(mlp.down_proj)[0],
                }
            )
        self.norm = whole(model.base_model.norm.weight).to(self.dtype)
        embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
        self.embedding = whole(embedding).to(self.dtype)
        self.head = self.embedding if head is embedding else whole(head).to(self.dtype)

    def sampling(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()  # its own copy of the weights has the adapters in it

    def _merged(self, module: torch.nn.Module) -> tuple[Tensor, Tensor | None]:
        """(weight, bias) of a linear module, its adapters added in float32 and never written back: merging into
        the model and out again would round the base weights a little at every step."""
        weight, bias = whole(module.weight), getattr(module, "bias", None)
        if hasattr(module, "lora_A"):
            for name in module.active_adapters:
                weight = weight.float() + whole(module.get_delta_weight(name)).float()
        return weight.to(self.dtype), None if bias is None else whole(bias).to(self.dtype)

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
