"""Run by `test_verl_real.py` with the Python of an environment that has verl: its real code, on a CPU.

`python verl_program.py PART WORDS...`; a part that fails ends with a traceback and exit code 1. Importing verl imports
`botgrpo_cli.integrations.verl`, as VERL_USE_EXTERNAL_MODULES says.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

LIMIT = 120  # seconds for verl's workers to come back with a few rollouts


def registry() -> None:
    """verl's own `compute_advantage` finds our estimators by name and gives what the pure functions give."""
    from tensordict import TensorDict
    from verl import DataProto
    from verl.experimental.agent_loop.agent_loop import _agent_loop_registry
    from verl.experimental.reward_loop.reward_manager import get_reward_manager_cls
    from verl.trainer.config import AlgoConfig
    from verl.trainer.ppo.ray_trainer import compute_advantage

    from botgrpo_cli.errors import InputError
    from botgrpo_cli.integrations.verl_advantages import ADVANTAGES

    assert get_reward_manager_cls("botgrpo").__name__ == "TokenRewardManager"
    assert _agent_loop_registry["botgrpo_single_turn"]["_target_"].endswith("verl.TokenRewardAgentLoop")
    torch.manual_seed(0)
    lengths = torch.tensor([9, 1, 4, 7, 3, 9])
    mask = (torch.arange(9) < lengths[:, None]).long()  # [6, 9]
    rewards = torch.randn(6, 9) * mask
    uids = np.array(["b", "a", "b", "a", "c", "b"], dtype=object)

    def advantages(name: str, values: torch.Tensor, **config):
        data = DataProto(
            batch=TensorDict({"token_level_rewards": values, "response_mask": mask}, batch_size=6),
            non_tensor_batch={"uid": uids},
        )
        done = compute_advantage(data, adv_estimator=name, config=AlgoConfig(adv_estimator=name, **config))
        assert torch.equal(done.batch["advantages"], done.batch["returns"])
        return done.batch["advantages"]

    for name, function in ADVANTAGES.items():
        assert torch.equal(advantages(name, rewards), function(rewards, mask, torch.tensor([1, 0, 1, 0, 2, 1]))), name
    last = torch.nn.functional.one_hot(lengths - 1, 9).float()  # as verl's own agent loop writes a reward
    for values, config, words in (
        (last, {}, "on the last token"),
        (rewards, {"use_kl_in_reward": True}, "use_kl_in_reward is true"),
    ):
        refused = ""
        try:
            advantages("bot_grpo", values, **config)
        except InputError as error:
            refused = str(error)
        assert words in refused, refused or f"not refused: {words}"


def settings(*folders: str) -> None:
    """What verl makes of exported folders: it passes verl's checks, and verl's loss from it is ours of the recipe."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    from botgrpo_cli.recipe.load import load_recipe

    for folder in folders:
        words = ["hydra.searchpath=[pkg://verl.trainer.config]", f"botgrpo_dir='{folder}'", "trainer.n_gpus_per_node=4"]
        with initialize_config_dir(config_dir=folder, version_base=None):
            tree = compose(config_name="botgrpo", overrides=words)
        OmegaConf.resolve(tree)
        recipe = load_recipe(f"{folder}/recipe.yaml").recipe
        reference, critic = need_reference_policy(tree), need_critic(tree)
        assert (reference, critic) == (recipe.training.kl > 0, False)
        validate_config(config=tree, use_reference_policy=reference, use_critic=critic)
        for part in (tree.algorithm, tree.actor_rollout_ref.rollout):
            omega_conf_to_dataclass(part)
        same_loss(omega_conf_to_dataclass(tree.actor_rollout_ref.actor), recipe)
        print("as it should be:", recipe.method.name)


def same_loss(actor, recipe) -> None:
    """Loss and gradient of random rollouts: verl's, from its actor's settings, and ours, from the recipe."""
    from verl.trainer.ppo.core_algos import agg_loss, get_policy_loss_fn, kl_penalty

    from botgrpo_cli.methods.objectives import clipped_surrogate, kl_k3, token_weights
    from botgrpo_cli.methods.registry import resolve

    method = resolve(recipe.method)
    torch.manual_seed(0)
    mask = torch.arange(8) < torch.tensor([8, 3, 5, 1])[:, None]  # [4, 8]
    old, reference = torch.randn(4, 8), torch.randn(4, 8)
    # Near the old policy for the narrow clip of a sequence ratio, far enough for both clips of a token ratio.
    spread = 5e-4 if method.ratio == "sequence" else 0.4
    new, advantage = old + spread * torch.randn(4, 8), torch.randn(4, 8)
    theirs, ours = new.clone().requires_grad_(), new.clone().requires_grad_()
    actor.global_batch_info.update(
        dp_size=1, batch_num_tokens=int(mask.sum()), global_batch_size=4, loss_scale_factor=actor.loss_scale_factor
    )
    share = {"loss_mask": mask.long(), "loss_agg_mode": actor.loss_agg_mode, **actor.global_batch_info}
    function = get_policy_loss_fn(actor.policy_loss.loss_mode)
    total, _ = function(old, theirs, advantage, mask.long(), actor.loss_agg_mode, actor, None)
    if actor.use_kl_loss:
        divergence = kl_penalty(theirs, reference, actor.kl_loss_type)  # [4, 8]
        total = total + actor.kl_loss_coef * agg_loss(divergence, **share)
    total.backward()

    clips = {"clip_low": method.clip_low, "clip_high": method.clip_high}
    losses, _ = clipped_surrogate(ours, old, advantage, mask, ratio=method.ratio, **clips)
    whole = {"completions": 4, "tokens": int(mask.sum()), "max_length": recipe.sampling.max_new_tokens}
    weights = token_weights(mask, method.aggregation, **whole)
    wanted = ((losses + recipe.training.kl * kl_k3(ours, reference, mask)) * weights).sum()
    wanted.backward()
    torch.testing.assert_close(total, wanted, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(theirs.grad, ours.grad, rtol=1e-4, atol=1e-7)
    assert theirs.grad.abs().sum() > 0


class StandIn:
    """In place of the server of the language model: the answers that were written down, in their order."""

    def __init__(self, answers: list[list[list[int]]]) -> None:
        self.answers = answers
        self.seen: dict[tuple[int, ...], int] = {}

    async def generate(self, request_id: str, *, prompt_ids: list[int], **_):
        from verl.workers.rollout.replica import TokenOutput

        count = self.seen.get(tuple(prompt_ids), 0)
        self.seen[tuple(prompt_ids)] = count + 1
        ids = self.answers[list(self.seen).index(tuple(prompt_ids))][count]
        version = {"min_global_steps": 1, "max_global_steps": 1}
        return TokenOutput(token_ids=ids, log_probs=[-1.0] * len(ids), stop_reason="completed", extra_fields=version)


def chain(config: str, answers: str, out: str) -> None:
    """Rollouts through verl's V1 classes: data set, agent loop worker, reward worker, TransferQueue, advantages.

    Only the language model's server is a stand-in. Writes what the trainer would see as JSON, for training rollouts
    and for those of a validation.
    """
    import ray
    import transfer_queue as tq
    from omegaconf import OmegaConf, open_dict
    from verl.experimental.reward_loop import RewardLoopWorker
    from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ

    tree, written = OmegaConf.load(config), json.loads(Path(answers).read_text())
    with open_dict(tree):
        tree.transfer_queue.enable = True
        tree.transfer_queue.backend.SimpleStorage.num_data_storage_units = 1
        tree.actor_rollout_ref.rollout.n = tree.actor_rollout_ref.rollout.val_kwargs.n = len(written[0])
    ray.init(num_cpus=4, include_dashboard=False, object_store_memory=200 * 2**20, logging_level="ERROR")
    tq.init(tree.transfer_queue)
    reward = ray.remote(RewardLoopWorker).remote(tree, None)
    found = {}
    for split, files in (("train", tree.data.train_files), ("val", tree.data.val_files)):
        worker = AgentLoopWorkerTQ.remote(tree, StandIn(written), None, [reward])
        found[split] = sample(tree, worker, split, files, len(written))
    Path(out).write_text(json.dumps(found))
    ray.shutdown()


def sample(tree, worker, split: str, files: str, count: int) -> dict[str, list]:
    """Rollouts of the first `count` prompts of a file, as they lie in the queue, with their advantages in training."""
    import ray
    import transfer_queue as tq
    from transfer_queue import KVBatchMeta
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer
    from verl.utils import hf_tokenizer
    from verl.utils import tensordict_utils as tu
    from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

    data = RLHFDataset(files, hf_tokenizer(tree.actor_rollout_ref.model.path), tree.data)
    rows = collate_fn([data[i] for i in range(count)])
    rows["uid"] = np.array([str(uuid.uuid4()) for _ in range(count)], dtype=object)
    batch, uids = tu.get_tensordict(rows), rows["uid"].tolist()
    tu.assign_non_tensor_data(batch, "global_steps", 1)
    tu.assign_non_tensor_data(batch, "validate", split == "val")
    pending = [{"is_prompt": True, "status": "pending", "global_steps": 1} for _ in uids]
    tq.kv_batch_put(keys=uids, partition_id=split, tags=pending)
    ray.get(worker.generate_sequences.remote(batch))
    tags = wait_for(uids, lambda: tq.kv_list(split)[split])
    keys = sorted(key for key in tags if key not in uids)
    tensors, others = ["responses", "rm_scores"], ["uid", "extra_fields", "extra_info"]
    if split == "train":
        sampled = tq.kv_batch_get(keys=keys, partition_id=split, select_fields=["rollout_log_probs"])
        known = tu.get_tensordict({"old_log_probs": sampled["rollout_log_probs"]})  # the actor's, on-policy
        tq.kv_batch_put(keys=keys, partition_id=split, fields=known)
        meta = KVBatchMeta(keys=keys, tags=[tags[key] for key in keys], partition_id=split)
        PPOTrainer._compute_advantage(SimpleNamespace(config=tree), meta, {})
        tensors.append("advantages")
    got = tq.kv_batch_get(keys=keys, partition_id=split, select_fields=[*tensors, *others])
    plain = {name: [getattr(value, "data", value) for value in got[name]] for name in others}
    return {
        "uid": [str(uid) for uid in plain["uid"]],
        "prompt_id": [info["prompt_id"] for info in plain["extra_info"]],
        "info": [fields["reward_extra_info"] for fields in plain["extra_fields"]],
        **{name: [row.tolist() for row in got[name].unbind()] for name in tensors},
    }


def wait_for(uids: list[str], read) -> dict:
    """The tags of everything in the queue once all prompts are done."""
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        tags = read()
        states = {tags[uid]["status"] for uid in uids}
        assert "failure" not in states, "verl's agent loop failed; see the log above"
        if states == {"finished"}:
            return tags
        time.sleep(0.1)
    raise AssertionError(f"verl's workers did not finish within {LIMIT} s")


if __name__ == "__main__":
    {"registry": registry, "settings": settings, "chain": chain}[sys.argv[1]](*sys.argv[2:])
