"""The recipe: every key there is, its type, its bounds and what it means.

Attribute docstrings are the help that `botgrpo recipes show` prints above each key. Source of a value
("paper" or "our choice") stands in recipes/README.md and above each key of the shipped recipes. What spans more
than one key is in `checks.py`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from botgrpo_cli.recipe.rewards import RewardConfig
from botgrpo_cli.recipe.section import Count, Section, Share, Weight


class ProblemsConfig(Section):
    source: str = "di-zhang-fdu/AIME_1983_2024"
    """`chains` or `words` (generated), `reasoning-gym:NAME`, a hub id, or a csv, json, jsonl or parquet file."""
    problem_column: str | None = None
    """Column of the problems; null guesses it, or takes that of a known data set."""
    answer_column: str | None = None
    """Column of the answers; null guesses it, or takes that of a known data set."""
    split: str | None = None
    """Split of a hub data set; null takes that of a known one, else train."""
    config: str | None = None
    """Configuration of a hub data set; null takes all those of a known one, else the only one there is."""
    skip_odd: bool = False
    """Leave out and count rows without a problem or an integer answer from 0 to 999, instead of refusing them all."""
    held_out: str | None = None
    """Source of held-out problems, which then leave the training set; null holds out a share by a hash of the text."""
    share: Share = 0.1
    """Share of the problems that is held out where `held_out` names no source."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of that hash, and of what reasoning-gym generates; apart from training.seed, so that seeds share a split."""
    size: Count = 1000
    """Problems that reasoning-gym generates."""


class TaskConfig(Section):
    name: Literal["react", "aime"] = "react"
    """The task."""
    prompts: Literal["briefs", "easy-briefs", "generated"] = "briefs"
    """Prompt set of React: all written app briefs, only the easy ones, or the tiny scale's generated specs."""
    problems: ProblemsConfig = ProblemsConfig()
    """Where the problems of AIME come from."""
    instruction: str = (
        "Write a React component for the brief below. Answer with exactly one ```jsx code block that holds one "
        "file with a default export. Import from 'react' only.\n\nBrief: {brief}"
    )
    """The user message; `{brief}` stands for the prompt's text, for AIME `{problem}` for the problem's."""
    workers: Count = 2
    """Node worker processes that compile and lint."""
    timeout: Annotated[float, Field(gt=0, le=120)] = 10.0
    """Seconds a worker may take for one sample before it is killed and the sample tried once more."""


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

    task: TaskConfig = TaskConfig()
    """What the policy learns to do, and how its answers are checked."""
    policy: PolicyConfig = PolicyConfig()
    """The model that is trained."""
    method: MethodConfig = MethodConfig()
    """How rewards become an update."""
    reward: RewardConfig = RewardConfig()
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
