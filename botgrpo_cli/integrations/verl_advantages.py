"""The advantages of this package as verl's advantage estimators: the same functions under verl's signature.

Nothing of verl is imported here. `integrations/verl.py` registers ESTIMATORS by name for `algorithm.adv_estimator`.

Our names and not verl's: verl's own `grpo` sums the token rewards of a rollout to its score, where ours takes their
mean, and divides by another standard deviation. Advantages that need the step of each token (PURE, process
supervision) are missing: verl hands an estimator neither steps nor the global reward alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from botgrpo_cli.errors import InputError
from botgrpo_cli.methods.advantages import bag_of_tokens, group_centred, group_relative

Advantage = Callable[[Tensor, Tensor, Tensor], Tensor]

ADVANTAGES: dict[str, Advantage] = {
    "bot_grpo": bag_of_tokens,
    "bot_grpo_uniform": partial(bag_of_tokens, weights="uniform"),
    "bot_grpo_to_go": partial(bag_of_tokens, credit="to-go"),
    "bot_grpo_uniform_to_go": partial(bag_of_tokens, weights="uniform", credit="to-go"),
    "botgrpo_group": group_relative,
    "botgrpo_group_centred": group_centred,
}


def group_ids(uids: Sequence[Hashable]) -> Tensor:
    """verl's uids (texts or any objects, one a rollout) as numbers from 0, in the order in which they come.

    Shapes: uids [B], result [B] int64.

    >>> group_ids(["b", "a", "b"])
    tensor([0, 1, 0])
    """
    values = uids.tolist() if hasattr(uids, "tolist") else list(uids)
    seen: dict[Hashable, int] = {}
    return torch.tensor([seen.setdefault(uid, len(seen)) for uid in values], dtype=torch.int64)


def estimate(
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: Sequence[Hashable] | None = None,
    config: Mapping[str, Any] | None = None,
    *,
    advantage: Advantage,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """(advantages, returns) as verl wants them; the returns, for a critic that there is none of, are the advantages.

    Shapes: token_level_rewards, response_mask [bs, T], index [bs] uids of the prompts, results [bs, T] float32.
    `config` is verl's `algorithm` section.

    Raises:
        InputError: verl adds its KL to the rewards, the rewards are not dense, or there are no uids.
    """
    if config is not None and config.get("use_kl_in_reward", False):
        raise InputError(
            "algorithm.use_kl_in_reward is true: the KL of each token would enter the bag of rewards that tokens are "
            "compared with. Set it to false, and actor_rollout_ref.actor.use_kl_loss to true for a KL in the loss."
        )
    if index is None:
        raise InputError("verl gave no uids with the rollouts, so which of them share a prompt is not known.")
    refuse_sparse(token_level_rewards, response_mask)
    group = group_ids(index).to(token_level_rewards.device)  # [bs]
    advantages = advantage(token_level_rewards, response_mask, group)  # [bs, T]
    return advantages, advantages


def refuse_sparse(rewards: Tensor, mask: Tensor) -> None:
    """One number on the last token of each rollout is what verl writes for a reward that is not dense.

    It would enter every mean divided by the length of its rollout, and nothing would look wrong.

    Shapes: rewards, mask [bs, T].
    Raises:
        InputError: in the whole batch only last tokens have a reward, and some have.
    """
    valid = mask.bool()  # [bs, T]
    last = valid & (valid.flip(1).cumsum(1).flip(1) == 1)  # [bs, T]
    before = valid & ~last  # [bs, T]
    if before.any() and not rewards[before].any() and rewards[last].any():
        raise InputError(
            "Every reward stands on the last token of its rollout, where it would count divided by the rollout's "
            "length. This estimator needs one on each token: set actor_rollout_ref.rollout.agent.default_agent_loop "
            "to botgrpo_single_turn and use a reward manager of botgrpo_cli.integrations.verl, with verl's V1 trainer "
            "(trainer.use_v1, verl 0.9)."
        )


ESTIMATORS: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {
    name: partial(estimate, advantage=function) for name, function in ADVANTAGES.items()
}
