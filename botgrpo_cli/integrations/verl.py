"""BoT-GRPO in verl: importing this module registers the advantages, the reward manager and the agent loop.

verl imports it in each of its processes when the environment says
`VERL_USE_EXTERNAL_MODULES=botgrpo_cli.integrations.verl`. How the parts meet in verl 0.9 (V1 trainer):

1. The agent loop `botgrpo_single_turn` samples as verl's own `single_turn_agent` does.
2. The reward manager scores the response and returns, beside the scalar that verl asks for, one reward a token.
3. verl would put the scalar on the last token; the output of the agent loop writes the dense rewards instead.
4. The estimator, `bot_grpo` or another of ours, makes advantages of them; it refuses rewards that are not dense.

`botgrpo export verl` writes a configuration with all of this in place. Needs verl; without it this is an ImportError.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

import torch
from verl import DataProto
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput
from verl.experimental.agent_loop.agent_loop import register as register_agent_loop
from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop
from verl.experimental.reward_loop.reward_manager import register as register_reward_manager
from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase
from verl.trainer.ppo.core_algos import register_adv_est

from botgrpo_cli.errors import InputError
from botgrpo_cli.integrations.verl_advantages import ESTIMATORS
from botgrpo_cli.integrations.verl_rewards import TOKEN_REWARDS, ResponseScorer
from botgrpo_cli.recipe.load import load_recipe
from botgrpo_cli.tasks.registry import make_task

RECIPE_VARIABLE = "BOTGRPO_RECIPE"

for _name, _estimator in ESTIMATORS.items():
    register_adv_est(_name)(_estimator)


@register_reward_manager("botgrpo")
class TokenRewardManager(RewardManagerBase):
    """Scores responses with the task of a recipe, one reward a token.

    The recipe is that of the class, or the file that the variable BOTGRPO_RECIPE names. Each row of the data has its
    prompt's id in `extra_info.prompt_id`.
    """

    recipe_file: ClassVar[Path | None] = None

    def __init__(self, config: Any, tokenizer: Any, compute_score: Any = None, **_: Any) -> None:
        super().__init__(config, tokenizer, compute_score)
        path = self.recipe_file or os.environ.get(RECIPE_VARIABLE)
        if not path:
            raise InputError(f"The reward manager knows no recipe; name its file in the variable {RECIPE_VARIABLE}.")
        recipe = load_recipe(str(path)).recipe
        limit = int(config.actor_rollout_ref.rollout.response_length)
        self.scorer = ResponseScorer(recipe, tokenizer, make_task(recipe), limit=limit)

    async def run_single(self, data: DataProto) -> dict[str, Any]:
        """Reward of the last row of `data`, for verl's reward loop; see `ResponseScorer.score`."""
        row = data[len(data) - 1]
        response = row.batch["responses"]  # [T], padded on the right
        length = int(row.batch["attention_mask"][-len(response) :].sum()) if len(response) else 0
        prompt_id = row.non_tensor_batch["extra_info"]["prompt_id"]
        return await self.scorer.score(prompt_id, response[:length].tolist())


class TokenRewardOutput(AgentLoopOutput):
    """A rollout whose rewards, when verl stores it, are the dense ones that its reward manager returned."""

    def as_dict(self) -> dict[str, Any]:
        output = super().as_dict()
        info = self.extra_fields.get("reward_extra_info") or {}
        if TOKEN_REWARDS not in info:  # a held-out prompt, or another reward manager: as verl has it
            return output
        dense = torch.tensor(info[TOKEN_REWARDS].values, dtype=torch.float32)  # [T]
        if dense.shape != output["response_mask"].shape:
            raise InputError(
                f"{len(dense)} token rewards came back for a response of {len(output['response_mask'])} tokens."
            )
        output["rm_scores"] = dense
        plain = {key: value for key, value in info.items() if key != TOKEN_REWARDS}
        output["extra_fields"] = {**output["extra_fields"], "reward_extra_info": plain}
        return output


@register_agent_loop("botgrpo_single_turn")
class TokenRewardAgentLoop(SingleTurnAgentLoop):
    """verl's single turn: one user message, one response."""

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
        output = await super().run(sampling_params, **kwargs)
        # Only what was set: verl tells fields that were left out from fields that are None.
        return TokenRewardOutput(**{name: getattr(output, name) for name in output.model_fields_set})
