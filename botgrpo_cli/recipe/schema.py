"""The recipe: every key there is, its type, its bounds and what it means; `task:` and `reward:` are each task's own.

Attribute docstrings are the help that `botgrpo recipes show` prints above each key. Source of a value
("paper" or "our choice") stands in recipes/README.md and above each key of the shipped recipes. What spans more
than one key is in `checks.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field, SerializeAsAny, create_model

from botgrpo_cli.recipe.section import Count, RewardSection, Section, Share, TaskSection, Weight


class LoraConfig(Section):
    rank: Count = 16
    """Rank of the adapters."""
    alpha: Annotated[float, Field(gt=0)] = 32.0
    """Scale numerator: adapters are multiplied by alpha / rank."""
    targets: Literal["all-linear"] | list[str] = "all-linear"
    """Module names that get adapters; all-linear leaves out the output head."""
    adapter: str | None = None
    """Folder of a saved adapter or of a checkpoint that training goes on from; null starts new ones."""


class PolicyConfig(Section):
    model: str = "Qwen/Qwen2.5-3B-Instruct"
    """Hub id, local folder, .gguf file, `tiny:NAME` (in the package) or `small:NAME` (see `botgrpo setup small`)."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """auto: bfloat16 where the device computes it natively, else float32."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:N or mps."""
    lora: LoraConfig | None = None
    """Adapter training; null trains every weight."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, about a third more time."""


class MethodConfig(Section):
    name: str = "bot-grpo"
    """An entry of the method registry; every key below overrides one part of that entry."""
    local_weight: Weight = 0.5
    """w_local in r_kt = R_k + w_local * local_kt; all methods see the same rewards."""
    weights: Literal["inverse-length", "uniform"] | None = None
    """Token weights in the bag."""
    credit: Literal["immediate", "to-go"] | None = None
    """immediate: a token's own reward; to-go: the mean of the rewards from the token on."""
    advantage: str | None = None
    """Name of an advantage function."""
    ratio: Literal["token", "sequence"] | None = None
    """Level of the importance ratio."""
    clip_low: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Lower clip: ratios below 1 - clip_low get no gradient when the advantage is negative."""
    clip_high: Annotated[float, Field(gt=0, lt=10)] | None = None
    """Upper clip: ratios above 1 + clip_high get no gradient when the advantage is positive."""
    aggregation: Literal["sequence-mean", "token-mean", "constant"] | None = None
    """How token losses become one number."""
    minibatches: Count | None = None
    """Optimizer steps that the rollouts of one pass are cut into; above 1 the ratio leaves 1 and clipping acts."""
    refills: Annotated[int, Field(ge=0)] | None = None
    """Times that a step samples other prompts in place of groups whose rollouts all score the same; 0 keeps them."""
    overlong: Share | None = None
    """Last share of the token limit over which a punishment of a long rollout grows from 0 to -1; 0: none."""
    softmin_temperature: Annotated[float, Field(gt=0)] | None = None
    """Temperature of PURE's soft minimum over steps: the lower, the more the worst step alone counts."""


class SamplingConfig(Section):
    prompts: Count = 8
    """Prompts a step."""
    group_size: Annotated[int, Field(ge=2)] = 8
    """Rollouts a prompt (K in the paper)."""
    max_new_tokens: Count = 256
    """Tokens after which a rollout is truncated."""
    temperature: Annotated[float, Field(gt=0, le=5)] = 1.0
    """Sampling temperature; also divides the logits in the objective."""


class TrainingConfig(Section):
    steps: Count = 60
    """Updates; each samples prompts x group_size fresh rollouts."""
    learning_rate: Annotated[float, Field(gt=0, le=1)] = 1e-6
    """AdamW step size after warm-up, constant."""
    warmup_steps: Annotated[int, Field(ge=0)] = 0
    """Updates over which the learning rate rises linearly."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """Decoupled weight decay."""
    max_grad_norm: Annotated[float, Field(gt=0)] = 1.0
    """Global gradient norm is clipped to this."""
    micro_batch: Count = 16
    """Rollouts a forward-backward pass; changes memory and speed, never the update."""
    inner_epochs: Count = 1
    """Passes over each batch of rollouts; above 1 the ratio leaves 1 and clipping acts."""
    kl: Annotated[float, Field(ge=0)] = 0.0
    """Coefficient of the k3 KL to the starting policy; 0 keeps no reference model in memory."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of everything random in the run."""
    threads: Annotated[int, Field(ge=0)] = 0
    """torch threads; 0 takes what the machine has."""
    trl: dict[str, Any] = Field({})
    """Fields of TRL's GRPOConfig, passed through under `--engine trl`, for example use_vllm: true."""
    trackers: list[Literal["tensorboard", "wandb", "trackio"]] = Field([])
    """Where the metrics go beside metrics.csv; they need `pip install 'botgrpo[track]'`."""


class EvaluationConfig(Section):
    every: Count = 5
    """Steps between evaluations on held-out prompts; the start and the end are always evaluated."""
    prompts: Count = 96
    """Held-out prompts, the same ones at every evaluation."""
    samples: Count = 1
    """Completions a prompt."""
    temperature: Annotated[float, Field(gt=0, le=5)] = 1.0
    """Sampling temperature of the evaluation."""
    max_new_tokens: Count | None = None
    """Token limit of the evaluation; null takes the one of `sampling`."""


class CheckpointConfig(Section):
    every: Count = 20
    """Steps between checkpoints; the end and Ctrl-C always write one."""
    keep_last: Count = 2
    """Checkpoints kept."""


class PriceConfig(Section):
    input: Annotated[float, Field(ge=0)] | None = None
    """Price of a million prompt tokens, in any currency; null leaves the cost unknown."""
    output: Annotated[float, Field(ge=0)] | None = None
    """Price of a million tokens that the judge writes, in the same currency."""


class JudgeConfig(Section):
    kind: Literal["heuristic", "exact", "openai", "bedrock"] = "heuristic"
    """heuristic and exact need no server; openai: any server with its chat completions; bedrock: Amazon Bedrock."""
    url: str | None = None
    """Address of the server, mostly ending in /v1; null takes $BOTGRPO_JUDGE_URL, for bedrock that of its region."""
    model: str | None = None
    """Name of the model on the server; null takes $BOTGRPO_JUDGE_MODEL."""
    key_variable: str = "BOTGRPO_JUDGE_KEY"
    """Name of the environment variable that holds the key; where the default is not set, OPENAI_API_KEY is read."""
    concurrency: Annotated[int, Field(ge=1, le=1024)] = 16
    """Calls in flight at once, over everything that asks the judge."""
    timeout: Annotated[float, Field(gt=0, le=3600)] = 60.0
    """Longest silence of the server within a call before the call counts as failed and is tried again."""
    tries: Annotated[int, Field(ge=1, le=20)] = 6
    """Tries of a call that fails in transport, with waits of up to 1, 2, 4, ... 60 seconds between them."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.0
    """Sampling temperature of the judge; null sends none, for models that take no other than their own."""
    max_tokens: Count = 1024
    """Tokens that a reply may have; one that is cut off there is malformed."""
    cache: bool = True
    """Keep valid replies in the cache folder, so that an equal call is never made twice."""
    prices: PriceConfig = PriceConfig()
    """What tokens cost, to count the cost of a run."""
    noise: Share = 0.0
    """Simulated error of an offline judge: spread of the noise on its scores."""
    attribution_error: Share = 0.0
    """Simulated error of an offline judge: share of blamed lines that are replaced by others."""
    spurious_lines: Share = 0.0
    """Simulated error of the offline screenshot judge: probability that a free one of its three lines is named."""
    flip: Share = 0.0
    """Simulated error of an offline judge: share of yes-or-no verdicts that are turned around."""
    against: Literal["written", "chain"] = "written"
    """What the exact judge takes for a step's input: the result that the step before wrote, or the true value."""


class Parts(Section):
    """The sections of a recipe: what a `scales:` block of a recipe file may hold."""

    task: SerializeAsAny[TaskSection] = TaskSection()
    """What the policy learns to do, and how its answers are checked."""
    policy: PolicyConfig = PolicyConfig()
    """The model that is trained."""
    method: MethodConfig = MethodConfig()
    """How rewards become an update."""
    reward: SerializeAsAny[RewardSection] = RewardSection()
    """Weights of the global terms and penalties of single lines."""
    sampling: SamplingConfig = SamplingConfig()
    """The rollouts of a step."""
    training: TrainingConfig = TrainingConfig()
    """The updates."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """How progress is measured on held-out prompts."""
    checkpoint: CheckpointConfig = CheckpointConfig()
    """What is kept to resume from."""
    judge: JudgeConfig = JudgeConfig()
    """Who scores what no compiler can: quality, screenshots, steps of a proof, pairs of answers."""


class Recipe(Parts):
    """One run, complete. `name` and `scale` are filled in by the loader."""

    name: str = "recipe"
    """Name of the recipe, from its file."""
    scale: Literal["paper", "small", "tiny"] = "paper"
    """The scale that was overlaid."""


class ScaleBlocks(Section):
    """What a recipe changes at each scale."""

    paper: Parts = Parts()
    """Only at the scale of the paper."""
    small: Parts = Parts()
    """Only with the small pretrained model."""
    tiny: Parts = Parts()
    """Only with the policy in the package."""


class RecipeFileKeys(Recipe):
    """What a recipe file may hold: the keys of a recipe, and three that only the loader reads."""

    extends: str | None = None
    """Name or path of the recipe that this one changes; a path is relative to the file."""
    scales: ScaleBlocks = ScaleBlocks()
    """Changes that hold at one scale only."""
    resolved: bool = False
    """true in the recipe of a run's folder: every key is final and no overlay is applied again."""


@dataclass(frozen=True)
class Schema:
    """What the recipes of one task may hold."""

    recipe: type[Recipe]
    file: type[RecipeFileKeys]


@cache
def schema_of(task: type[TaskSection], reward: type[RewardSection]) -> Schema:
    """The schema with a task's own sections in their places."""
    own: dict[str, Any] = {
        name: (section, Field(section(), description=Parts.model_fields[name].description))
        for name, section in (("task", task), ("reward", reward))
    }
    parts = create_model("Parts", __base__=Parts, **own)
    blocks: dict[str, Any] = {
        name: (parts, Field(parts(), description=info.description)) for name, info in ScaleBlocks.model_fields.items()
    }
    scales = create_model("ScaleBlocks", __base__=ScaleBlocks, **blocks)
    about = RecipeFileKeys.model_fields["scales"].description
    return Schema(
        create_model("Recipe", __base__=Recipe, **own),
        create_model(
            "RecipeFileKeys", __base__=RecipeFileKeys, **own, scales=(scales, Field(scales(), description=about))
        ),
    )
