"""What a run will do, in numbers, before it does any of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from botgrpo_cli.policy.load import Policy
from botgrpo_cli.policy.logprobs import CHUNK_ROWS
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.training.processes import ALONE, Processes

# Bytes a layer keeps for the backward pass, per token and hidden unit, in units of the element size: the inputs of
# seven matmuls, two norms, the attention output and the gate, up and SiLU products. Measured on Llama-shaped blocks:
# 22 in float32, 24 in bfloat16 with adapters.
KEPT_PER_UNIT = 23
HEAD_BYTES = 12  # a chunk of logits, its softmax and its gradient, float32


@dataclass(frozen=True)
class Plan:
    rollouts: int
    micro_batches: int  # of each process
    tokens_a_step: int  # at most: prompts are counted at their mean length
    prompt_tokens: int  # mean
    evaluations: int
    processes: Processes
    weights_gb: float  # this and what follows: of each process
    optimizer_gb: float
    cache_gb: float
    activations_gb: float

    @property
    def memory_gb(self) -> float:
        """Sampling and updating alternate, so the larger of their buffers counts."""
        return self.weights_gb + self.optimizer_gb + max(self.cache_gb, self.activations_gb)


def make_plan(recipe: Recipe, policy: Policy, prompt_tokens: int, processes: Processes = ALONE) -> Plan:
    """Batch arithmetic and an estimate of memory (ours: good to about a third)."""
    config = policy.causal_lm.config.get_text_config()
    s, t = recipe.sampling, recipe.training
    rollouts = s.prompts * s.group_size
    size = policy.compute_dtype.itemsize
    trainable = sum(p.numel() for p in policy.trainable().values())
    weights = sum(p.numel() * p.element_size() for p in policy.model.parameters())
    width = prompt_tokens + s.max_new_tokens
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    kv_heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    cache = rollouts / processes.count * width * config.num_hidden_layers * 2 * kv_heads * head_dim * size
    mlp_share = getattr(config, "intermediate_size", 4 * config.hidden_size) / (3 * config.hidden_size)
    layers = 1 if recipe.policy.gradient_checkpointing else config.num_hidden_layers
    kept = t.micro_batch * width * config.hidden_size * layers * KEPT_PER_UNIT * max(1.0, mlp_share) * size
    kept += min(CHUNK_ROWS, t.micro_batch * s.max_new_tokens) * config.vocab_size * HEAD_BYTES
    shards = processes.count if processes.sharded else 1
    evaluations = sum(i % recipe.evaluation.every == 0 or i == t.steps for i in range(t.steps + 1))
    return Plan(
        rollouts=rollouts,
        micro_batches=-(-rollouts // (t.micro_batch * processes.count)),
        tokens_a_step=rollouts * s.max_new_tokens,
        prompt_tokens=prompt_tokens,
        evaluations=evaluations,
        processes=processes,
        # the fused decoder holds a second copy of the weights, in the compute dtype
        weights_gb=(weights / shards + sum(p.numel() for p in policy.model.parameters()) * size) / 1e9,
        optimizer_gb=trainable / shards * 12 / 1e9,  # gradient and two moments, float32
        cache_gb=cache / 1e9,
        activations_gb=kept / 1e9,
    )


def plan_rows(plan: Plan, recipe: Recipe, policy: Policy, decoder: str, out: Path) -> list[tuple[str, str]]:
    """(label, sentence) pairs for the terminal."""
    s, t, e, about = recipe.sampling, recipe.training, recipe.evaluation, policy.describe()
    how = f"LoRA rank {recipe.policy.lora.rank}" if recipe.policy.lora else "all weights"
    each = "" if plan.processes.alone else " on each process"
    return [
        ("recipe", f"{recipe.name} at scale {recipe.scale}, method {recipe.method.name}, seed {t.seed}"),
        (
            "policy",
            f"{about['source']} ({about['architecture']}, {about['parameters'] / 1e6:.1f} M parameters, "
            f"{about['trainable_parameters'] / 1e6:.2f} M trained: {how}) on {about['device']} "
            f"in {about['compute_dtype']}",
        ),
        (
            "a step",
            f"{s.prompts} prompts x {s.group_size} rollouts = {plan.rollouts} rollouts in {plan.micro_batches} "
            f"micro-batches of {t.micro_batch}{each}; at most {s.max_new_tokens} new tokens each, "
            f"{plan.tokens_a_step:,} a step, after prompts of {plan.prompt_tokens} tokens",
        ),
        *processes_row(plan.processes, s.prompts),
        ("updates", f"{t.steps} steps x {t.inner_epochs} inner epochs, learning rate {t.learning_rate:g}"),
        (
            "evaluation",
            f"{plan.evaluations} times, every {e.every} steps: {e.prompts} held-out prompts x {e.samples} samples "
            f"at temperature {e.temperature:g}",
        ),
        (
            "memory",
            f"about {plan.memory_gb:.2f} GB{each}: weights {plan.weights_gb:.2f}, gradients and optimizer "
            f"{plan.optimizer_gb:.2f}, KV cache {plan.cache_gb:.2f} or activations {plan.activations_gb:.2f}",
        ),
        ("sampler", decoder),
        ("files", f"{out}/ (recipe.yaml, manifest.json, metrics.csv, samples.jsonl, checkpoints/)"),
    ]


def processes_row(processes: Processes, prompts: int) -> list[tuple[str, str]]:
    if processes.alone:
        return []
    how = "parameters sharded (FSDP)" if processes.sharded else "all weights on each (DDP)"
    return [("processes", f"{processes.count}, {how}; each samples {prompts // processes.count} prompts a step")]
