"""Loading a policy: any transformers causal LM, with LoRA or whole, on the device and dtype that fit."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils import logging as transformers_logging

from botgrpo_cli.errors import InputError
from botgrpo_cli.policy.adapters import add_adapters
from botgrpo_cli.recipe.schema import PolicyConfig
from botgrpo_cli.rewards.spans import TokenBytes
from botgrpo_cli.tiny import weights_digest

if TYPE_CHECKING:
    from botgrpo_cli.tasks.base import Prompt

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass
class Policy:
    """A model, its tokenizer, and what the sampler and the objective need to know of both.

    Trainable weights are float32 whatever `compute_dtype` is: a step of 1e-6 is lost in bfloat16. Where
    `compute_dtype` is lower, forward passes run under autocast.
    """

    model: torch.nn.Module
    tokenizer: PreTrainedTokenizerBase
    device: torch.device
    compute_dtype: torch.dtype
    eos_ids: frozenset[int]
    source: str
    token_bytes: TokenBytes = field(repr=False)
    sharded: bool = False  # parameters are spread over the processes of the run, see sharding.py

    @property
    def causal_lm(self) -> PreTrainedModel:
        """The transformers model, adapters inside it when there are any."""
        return self.model.get_base_model() if self.has_adapters else self.model

    @property
    def has_adapters(self) -> bool:
        return hasattr(self.model, "peft_config")

    @property
    def pad_id(self) -> int:
        """Only fills rectangles; masks come from lengths, so any valid id will do (often pad is EOS)."""
        pad = self.tokenizer.pad_token_id
        return pad if pad is not None else min(self.eos_ids)

    @property
    def context_length(self) -> int:
        return int(getattr(self.causal_lm.config, "max_position_embeddings", None) or 1 << 30)

    def trainable(self) -> dict[str, torch.nn.Parameter]:
        return {name: p for name, p in self.model.named_parameters() if p.requires_grad}

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        lower = self.compute_dtype != torch.float32
        return torch.autocast(self.device.type, dtype=self.compute_dtype) if lower else contextlib.nullcontext()

    def encode(self, prompt: Prompt | str) -> list[int]:
        """Prompt ids: the chat template where there is one, and exactly one BOS where the model uses one. A text is
        one user message."""
        return self.encode_all([prompt])[0]

    def encode_all(self, prompts: Sequence[Prompt | str]) -> list[list[int]]:
        """As `encode`, for many prompts at once: some ten times quicker for the thousands of a task."""
        tokenizer = self.tokenizer
        chats = [[{"role": "user", "content": p}] if isinstance(p, str) else p.messages for p in prompts]
        if tokenizer.chat_template:
            texts = tokenizer.apply_chat_template(chats, add_generation_prompt=True, tokenize=False)
        else:  # what a chat says, line after line
            texts = ["".join(message["content"] + "\n" for message in chat) for chat in chats]
        every = [list(ids) for ids in tokenizer(texts, add_special_tokens=False).input_ids]
        bos = tokenizer.bos_token_id
        if bos is None:
            return every
        adds_bos = list(tokenizer("a").input_ids)[:1] == [bos]
        return [_one_bos(ids, bos, adds_bos) for ids in every]

    def snapshot(self) -> dict[str, torch.Tensor]:
        """A copy of the trainable weights: the frozen reference of the KL term."""
        return {name: p.detach().clone() for name, p in self.trainable().items()}

    @contextlib.contextmanager
    def swapped(self, weights: dict[str, torch.Tensor]) -> Iterator[None]:
        """Run the body with `weights` in place of the trainable ones. Works alike for LoRA and full training:
        the reference of a run that starts from an adapter is that adapter, not the bare base model."""
        kept = self.snapshot() if self.sharded else {name: p.data for name, p in self.trainable().items()}
        try:
            self._put(weights)
            yield
        finally:
            self._put(kept)

    def _put(self, weights: dict[str, torch.Tensor]) -> None:
        for name, p in self.trainable().items():
            if self.sharded:  # layers are gathered from where the parameters lie, so the values have to move
                p.detach().copy_(weights[name])
            else:
                p.data = weights[name]

    def inside(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call `function`, which runs the model or uses its weights, as one forward pass: sharded weights are gathered
        for it and its backward pass. All processes call it alike then."""
        return self.causal_lm.run_inside(function, *arguments) if self.sharded else function(*arguments)

    def describe(self) -> dict[str, Any]:
        """For the manifest and the plan."""
        total = sum(p.numel() for p in self.model.parameters())
        return {
            "source": self.source,
            "weights": weights_digest(self.source),
            "architecture": self.causal_lm.config.model_type,
            "parameters": total,
            "trainable_parameters": sum(p.numel() for p in self.trainable().values()),
            "device": str(self.device),
            "compute_dtype": str(self.compute_dtype).removeprefix("torch."),
            "eos_ids": sorted(self.eos_ids),
        }


def choose_device(name: str, local_rank: int | None = None) -> torch.device:
    """`auto` takes CUDA, then Apple's MPS, then the CPU. `local_rank`, that of one of several processes on this
    machine, makes `auto` and `cuda` the GPU of that number.

    Raises:
        InputError: an unknown device, or one that is not there; several processes for one device.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    if local_rank is not None and name != "cpu":
        if name != "cuda":
            raise InputError(
                f"Several processes can't train on one device, {name}; expected policy.device to be auto, cuda or cpu."
            )
        there = torch.cuda.device_count()
        if local_rank >= there:
            raise InputError(
                f"Each process needs a GPU of its own, and torch sees {there} here; expected at most {there} processes "
                "on this machine, or policy.device=cpu."
            )
        name = f"cuda:{local_rank}"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"policy.device is '{name}': expected auto, cpu, cuda, cuda:N or mps.") from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InputError(f"policy.device is '{name}', but torch sees {torch.cuda.device_count()} CUDA devices here.")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise InputError("policy.device is 'mps', but this torch has no MPS device.")
    return device


def choose_dtype(name: str, device: torch.device) -> torch.dtype:
    """`auto` takes bfloat16 only where the device computes it natively; emulation is slower than float32."""
    if name != "auto":
        return DTYPES[name]
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    if device.type == "cpu" and (torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()):
        return torch.bfloat16
    return torch.float32


def load_policy(config: PolicyConfig, *, scale: str = "tiny", local_rank: int | None = None) -> Policy:
    """Load what `policy:` of a recipe names: the model, and new or saved adapters on it.

    Raises:
        InputError: the model or the adapter is not to be had here or does not fit, or the device is not there.
    """
    device = choose_device(config.device, local_rank)
    small = config.model.partition(":")[0] in ("tiny", "small")  # runs on a CPU at any scale
    if scale == "paper" and config.device == "auto" and device.type == "cpu" and not small:
        raise InputError(no_accelerator(config.model))
    dtype = choose_dtype(config.dtype, device)
    folder, gguf = locate(config.model)
    stored = torch.float32 if config.lora is None else dtype
    transformers_logging.disable_progress_bar()
    extra: dict[str, Any] = {"gguf_file": gguf} if gguf else {}
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **extra)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=stored, **extra, **unpacked(gguf))
    except (OSError, ValueError, ImportError) as error:
        raise InputError(model_missing(config.model, error)) from error
    model.to(device).eval()  # eval: dropout off, so that the first ratio is exactly 1
    eos_ids = end_tokens(model, tokenizer)
    if config.lora is not None:
        model = add_adapters(model, config.lora)
    if config.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        for layer in model.modules():
            if isinstance(layer, GradientCheckpointingLayer):
                layer.training = True  # transformers recomputes in training mode only; dropout inside stays off
        model.enable_input_require_grads()
    return Policy(model, tokenizer, device, dtype, eos_ids, config.model, TokenBytes(tokenizer))


def locate(name: str) -> tuple[str, str | None]:
    """(what from_pretrained gets, file name of a GGUF in it or None)."""
    kind, _, rest = name.partition(":")
    if kind == "tiny":
        from botgrpo_cli.tiny import weights_folder

        return str(weights_folder(rest)), None
    if kind == "small":
        from botgrpo_cli.policy.small import ensure_small

        return str(ensure_small(rest)), None
    path = Path(name)
    if path.suffix == ".gguf":
        if not path.is_file():
            raise InputError(f"policy.model is '{name}': there is no such file.")
        return str(path.parent), path.name
    if name.startswith((".", "/", "~")) or path.exists():
        if not path.expanduser().is_dir():
            raise InputError(f"policy.model is '{name}': there is no such folder.")
        return str(path.expanduser()), None
    os.environ.setdefault("HF_HUB_ETAG_TIMEOUT", "5")  # an unreachable hub should say so at once
    return name, None


def unpacked(gguf: str | None) -> dict[str, Any]:
    """Quantised blocks can neither be trained nor saved, so a GGUF file is unpacked as it is read."""
    if gguf is None:
        return {}
    from transformers import GgufConfig  # newer than the transformers that verl asks for, which reads no such file

    return {"quantization_config": GgufConfig(dequantize=True)}


def end_tokens(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Every id that ends a turn: the generation config's list (a chat model has several) and the tokenizer's."""
    listed = model.generation_config.eos_token_id
    ids = listed if isinstance(listed, list) else [listed]
    found = frozenset(int(i) for i in (*ids, tokenizer.eos_token_id) if i is not None)
    if not found:
        raise InputError("The policy's tokenizer and generation config name no end-of-sequence token.")
    return found


def no_accelerator(model: str) -> str:
    return (
        f"The paper scale trains {model}, which needs a GPU, and torch sees none here. Two commands work on this "
        "machine:\n  botgrpo train react_qwen --scale tiny    (a 1-2 M-parameter policy, minutes on two cores)\n"
        "  botgrpo train react_qwen --scale small   (SmolLM2-135M with LoRA, about 20 minutes on two cores)\n"
        "To train on the CPU all the same, add --set policy.device=cpu."
    )


def model_missing(model: str, error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (
        f"policy.model is '{model}', and it could not be loaded: {lines[0] if lines else type(error).__name__}\n"
        "It is neither in the local cache nor reachable. Two commands work without it:\n"
        "  botgrpo train react_qwen --scale tiny\n  botgrpo train react_qwen --scale small"
    )


def _one_bos(ids: list[int], bos: int, adds_bos: bool) -> list[int]:
    """The template writes BOS itself, some write it twice."""
    start = next((place for place, token in enumerate(ids) if token != bos), len(ids))
    return [bos, *ids[start:]] if start or adds_bos else ids
