"""TRL's GRPO trainer with rewards and advantages by token.

Everything else stays TRL's: generation (transformers or vLLM), loss, optimizer, DeepSpeed, FSDP, logging. TRL's loss
takes advantages `[B, T]`; `BagOfTokensTrainer` gives it some. See `grpo_settings` for a config that matches a method.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from botgrpo_cli.integrations.trl_settings import check_settings, find_method, grpo_settings, require_trl
from botgrpo_cli.methods.advantages import group_statistics
from botgrpo_cli.methods.registry import Method

require_trl()  # before the import below: its message says what to install

from trl import GRPOConfig, GRPOTrainer  # noqa: E402

__all__ = ["BagOfTokensTrainer", "TokenFunc", "grpo_settings", "no_outcome_reward"]

# f(prompts, completions, completion_ids, **columns) -> one list a completion, one number a token.
TokenFunc = Callable[..., Sequence[Sequence[float | None]]]


def no_outcome_reward(completions: Sequence[Any], **_: Any) -> list[float]:
    """Stands in for the reward function that TRL asks for when there are token rewards alone; it is not logged."""
    return [0.0] * len(completions)


@dataclass
class TokenScores:
    """What the functions said of this process's completions, and TRL's reward functions of everyone's."""

    outcomes: Tensor  # [B, F] rewards of the F reward functions, over all processes
    local: list[list[list[float]]]  # [functions][b][tokens]
    steps: list[list[int]] | None  # [b][tokens]


class BagOfTokensTrainer(GRPOTrainer):
    """`trl.GRPOTrainer` whose advantages come from token rewards r_kt = R_k + sum_i w_i * local_i,kt.

    R_k is the weighted sum of TRL's `reward_funcs`, the same for all tokens of a completion. New arguments, all by
    keyword:

    `token_reward_funcs`: one callable or a list, called like a reward function of TRL with every column of the data
    set: `f(prompts, completions, completion_ids, **columns)`. It returns a list a completion that holds one number a
    token of `completion_ids`. NaN or None means that the completion could not be scored: it leaves the statistics of
    its group and gets advantage 0.
    `token_reward_weights`: one number a function, 1.0 by default.
    `method`: name of an entry of `botgrpo_cli.methods.registry.METHODS`, or a `Method`: its advantage function. Loss
    and clip are those of `args`; without `args` those of `grpo_settings(method)`.
    `steps_func`: called alike, returns the step that each token belongs to, an integer from left to right. Methods
    that work on steps use it; without it a completion is one step.

    `reward_funcs` may be left out. Tokens of tools and environments (TRL's tool mask), and truncated completions
    under `mask_truncated_completions`, count neither in the loss nor in the statistics. A group is what TRL makes of
    one prompt of a batch, `num_generations` completions (in evaluation `num_generations_eval`), and may lie on several
    processes.

    Logged beside TRL's metrics: `token_rewards/NAME/mean`; `bag/score` (mean over completions of their mean token
    reward), `bag/zero_spread` and `bag/zero_spread_tokens` (shares of groups without anything to learn from),
    `bag/unscored`, `bag/empty`. Without `reward_funcs`, TRL's `reward` and `reward_std` are those of the score.

    Raises:
        ValueError: a setting of `args` contradicts advantages by token, or a function returned a wrong number of
            rewards (the message names function, completion and both numbers).
    """

    def __init__(
        self,
        model: Any,
        reward_funcs: Any = None,
        args: GRPOConfig | None = None,
        *others: Any,
        token_reward_funcs: TokenFunc | Sequence[TokenFunc] = (),
        token_reward_weights: Sequence[float] | None = None,
        method: str | Method = "bot-grpo",
        steps_func: Callable[..., Sequence[Sequence[int]]] | None = None,
        **kwargs: Any,
    ) -> None:
        self.method = find_method(method)
        self.token_reward_funcs = [token_reward_funcs] if callable(token_reward_funcs) else list(token_reward_funcs)
        self.token_reward_names = [_name(function) for function in self.token_reward_funcs]
        if token_reward_weights is None:
            token_reward_weights = [1.0] * len(self.token_reward_funcs)
        self.token_reward_weights = [float(weight) for weight in token_reward_weights]
        if len(self.token_reward_weights) != len(self.token_reward_funcs):
            raise ValueError(
                f"token_reward_weights has {len(self.token_reward_weights)} numbers for "
                f"{len(self.token_reward_funcs)} token_reward_funcs; expected one each."
            )
        self.steps_func = steps_func
        for function in (*self.token_reward_funcs, *([steps_func] if steps_func else ())):
            if inspect.iscoroutinefunction(function):
                raise ValueError(f"The function '{_name(function)}' is async; token functions must be plain functions.")
        args = GRPOConfig(**grpo_settings(self.method)) if args is None else args
        check_settings(args, self.method)
        # An environment may bring its own reward, which TRL looks for after this.
        self.outcome_rewards = bool(reward_funcs) or kwargs.get("environment_factory") is not None
        if not self.outcome_rewards and not self.token_reward_funcs:
            raise ValueError("There is no reward: give token_reward_funcs, reward_funcs or both.")
        reward_funcs = reward_funcs if self.outcome_rewards else no_outcome_reward
        self._scores: TokenScores | None = None
        super().__init__(model, reward_funcs, args, *others, **kwargs)

    def _calculate_rewards(
        self, inputs: list[dict[str, Any]], prompts: list, completions: list, completion_ids_list: list[list[int]]
    ) -> Tensor:
        """TRL's rewards of each function, [B, F] over all processes; the token rewards are kept for later."""
        outcomes = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        hidden = ("prompt", "completion", "completion_ids")
        columns = {key: [row[key] for row in inputs] for key in inputs[0] if key not in hidden}
        columns |= {"trainer_state": self.state, "log_metric": self._log_metric}
        columns["log_extra"] = self._log_completion_extra
        if self.environments is not None:
            columns["environments"] = self.environments
        given = {"prompts": prompts, "completions": completions, "completion_ids": completion_ids_list, **columns}
        lengths = [len(ids) for ids in completion_ids_list]
        local = [_one_a_token(f, f(**given), lengths, float("nan")) for f in self.token_reward_funcs]
        steps = self.steps_func and _one_a_token(self.steps_func, self.steps_func(**given), lengths, 0)
        self._scores = TokenScores(outcomes, local, steps)
        return outcomes

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        batch = super()._generate_and_score_completions(inputs)
        scores, self._scores = self._scores, None
        batch["advantages"] = self._token_advantages(batch, scores)  # [b, T]
        return batch

    @torch.no_grad()
    def _token_advantages(self, batch: dict[str, Any], scores: TokenScores) -> Tensor:
        """Advantages of this process's rows [b, T], from the groups of all processes.

        TRL has not shuffled yet: a group is `num_generations` rows that lie side by side once the processes' rows are
        put one after the other, as TRL's own baseline takes them. The ids are made here and nowhere else.
        """
        train = self.model.training
        device = batch["completion_mask"].device
        wide = torch.float32 if device.type == "mps" else torch.float64  # mps has no float64
        mask = batch["completion_mask"] * batch.get("tool_mask", 1)  # [b, T]
        rows, width = mask.shape
        local = torch.zeros(rows, width, dtype=wide, device=device)
        for name, weight, values in zip(self.token_reward_names, self.token_reward_weights, scores.local, strict=True):
            values = _rectangle(values, local)  # [b, T]
            local += weight * values
            self._log_mean(f"token_rewards/{name}/mean", values, mask)
        steps = torch.zeros_like(mask) if scores.steps is None else _rectangle(scores.steps, mask)  # [b, T]
        local, mask, steps = (self._everyone(values) for values in (local, mask, steps))  # [B, T*] each
        weights = self.reward_weights.to(device, wide)  # [F]
        unscored = scores.outcomes.isnan().all(1)  # [B], as in TRL: the functions that do say something count
        outcome = (scores.outcomes.to(wide) * weights).nansum(1).masked_fill(unscored, torch.nan)  # [B]
        size = self.num_generations if train else self.num_generations_eval
        group = torch.arange(len(mask), device=device) // size  # [B]
        tokens = outcome[:, None] + local  # [B, T*]
        advantages = self.method.compute(tokens, mask, group, steps=steps, outcome=outcome)  # [B, T*]
        self._log_groups("train" if train else "eval", tokens, mask, group, advantages)
        first = self.accelerator.process_index * rows
        return advantages[first : first + rows, :width].contiguous()

    def _everyone(self, values: Tensor) -> Tensor:
        """Rows of all processes, padded with zeros to one width. Shapes: [b, T] -> [B, T*]."""
        return self.accelerator.gather(self.accelerator.pad_across_processes(values.contiguous(), dim=1))

    def _log_mean(self, key: str, values: Tensor, mask: Tensor) -> None:
        """Mean over the scored tokens of all processes. Shapes: values, mask [b, T]."""
        counts = mask.bool() & values.isfinite()  # [b, T]
        sums = torch.stack([values[counts].sum(), counts.sum().to(values)])
        total, count = self.accelerator.reduce(sums, reduction="sum").tolist()
        self._metrics["train" if self.model.training else "eval"][key].append(total / count if count else float("nan"))

    def _log_groups(self, mode: str, tokens: Tensor, mask: Tensor, group: Tensor, advantages: Tensor) -> None:
        """Group statistics, and TRL's own figures where they would mislead. Shapes: [B, T], group [B]."""
        metrics = self._metrics[mode]
        lengths = mask.sum(1)  # [B]
        score = torch.where(mask.bool(), tokens, 0.0).sum(1) / lengths.clamp(min=1)  # [B]
        scored = score[score.isfinite() & (lengths > 0)]  # [B']
        statistics = group_statistics(tokens, mask, group)
        metrics["bag/score"].append(scored.mean().item() if len(scored) else float("nan"))
        for key in ("zero_spread", "zero_spread_tokens", "unscored", "empty"):
            metrics[f"bag/{key}"].append(statistics[key])
        shown = self._logs["advantages"]  # TRL's table of completions has room for one number each
        for _ in range(min(len(shown), len(mask))):
            shown.pop()
        shown.extend((advantages.sum(1) / lengths.clamp(min=1)).tolist())
        if self.outcome_rewards:
            return
        for part in ("mean", "std"):
            metrics.pop(f"rewards/{no_outcome_reward.__name__}/{part}", None)
        metrics["reward"][-1] = metrics["bag/score"][-1]
        metrics["reward_std"][-1] = scored.std().item() if len(scored) > 1 else float("nan")
        metrics["frac_reward_zero_std"][-1] = statistics["zero_spread"]
        self._logs["rewards"].pop(no_outcome_reward.__name__, None)
        self._logs["rewards"]["token rewards"].extend(score.tolist())


def _name(function: Callable[..., Any]) -> str:
    function = getattr(function, "func", function)  # functools.partial
    return getattr(function, "__name__", type(function).__name__)


def _one_a_token(function: Callable[..., Any], values: Any, lengths: Sequence[int], missing: float) -> list[list]:
    """What a token function returned, as lists of the expected lengths, None replaced by `missing`."""
    values = list(values)
    if len(values) != len(lengths):
        raise ValueError(
            f"The token function '{_name(function)}' returned {len(values)} lists for {len(lengths)} completions; "
            "expected one each."
        )
    rows = []
    for number, (row, length) in enumerate(zip(values, lengths, strict=True)):
        row = row.tolist() if hasattr(row, "tolist") else list(row)
        if len(row) != length:
            raise ValueError(
                f"The token function '{_name(function)}' returned {len(row)} numbers for completion {number}, which "
                f"has {length} tokens; expected one a token."
            )
        rows.append([missing if value is None else value for value in row])
    return rows


def _rectangle(rows: Sequence[Sequence[float]], like: Tensor) -> Tensor:
    """Ragged rows padded with zeros to the shape and dtype of `like` [b, T]."""
    filled = torch.zeros(like.shape, dtype=like.dtype)
    for k, row in enumerate(rows):
        filled[k, : len(row)] = torch.tensor(row, dtype=like.dtype)
    return filled.to(like.device)
