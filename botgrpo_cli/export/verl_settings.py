"""A recipe as settings of verl (0.9, V1 trainer): what verl can say of it, and a clear refusal of what it can't."""

from __future__ import annotations

from typing import Any

from botgrpo_cli.errors import InputError
from botgrpo_cli.integrations.verl_advantages import ADVANTAGES
from botgrpo_cli.integrations.verl_rewards import SCORE
from botgrpo_cli.methods.registry import METHODS, Method, resolve
from botgrpo_cli.policy.adapters import find_adapter
from botgrpo_cli.recipe.schema import Recipe

EXTERNAL_MODULE = "botgrpo_cli.integrations.verl"
AGENT_LOOP = "botgrpo_single_turn"
FOLDER = "${botgrpo_dir}"  # launch.sh sets it, so that the folder can be moved

AGGREGATION = {
    "sequence-mean": "seq-mean-token-mean",
    "token-mean": "token-mean",
    "constant": "seq-mean-token-sum-norm",
}
# verl's second clip of negative advantages, which our objective has not: far above any ratio that occurs.
NO_DUAL_CLIP = 1e6


def estimator_of(method: Method) -> str:
    """The name under which `integrations/verl.py` registers the method's advantage.

    Raises:
        InputError: verl's estimators don't see what it needs; names the methods that can be exported.
    """
    if method.needs:
        able = ", ".join(name for name, other in METHODS.items() if not other.needs)
        raise InputError(
            f"verl can't express the method '{method.name}': its advantage '{method.advantage}' needs the "
            f"{' and the '.join(method.needs)} of each rollout, and verl gives an advantage estimator only token "
            f"rewards, mask and prompt ids. Methods that can be exported: {able}."
        )
    if method.advantage == "bot":
        uniform = "_uniform" if method.options.get("weights") == "uniform" else ""
        to_go = "_to_go" if method.options.get("credit") == "to-go" else ""
        name = f"bot_grpo{uniform}{to_go}"
    else:
        name = f"botgrpo_{method.advantage.replace('-', '_')}"
    if name not in ADVANTAGES:
        raise InputError(
            f"The advantage '{method.advantage}' has no estimator for verl; those there are: {', '.join(ADVANTAGES)}."
        )
    return name


def settings(recipe: Recipe, model: str, *, prompts: int, prompt_tokens: int) -> dict[str, Any]:
    """The tree of settings that goes over verl's `ppo_trainer`. `model` is what `from_pretrained` gets, `prompts` the
    number of training prompts, `prompt_tokens` an upper bound of the length of a prompt.

    Raises:
        InputError: verl can't express the method, its minibatches or its KL.
    """
    method = resolve(recipe.method)
    training, sampling, evaluation = recipe.training, recipe.sampling, recipe.evaluation
    steps_an_epoch = max(1, prompts // sampling.prompts)
    return {
        "botgrpo_dir": "???",
        "algorithm": {
            "adv_estimator": estimator_of(method),
            "use_kl_in_reward": False,
            "filter_groups": {"enable": method.refills > 0, "metric": SCORE},
        },
        "actor_rollout_ref": {
            "model": _model(recipe, model),
            "actor": _actor(recipe, method),
            "ref": {"log_prob_micro_batch_size_per_gpu": training.micro_batch},
            "rollout": {
                "name": "vllm",
                "n": sampling.group_size,
                "temperature": sampling.temperature,
                "top_p": 1.0,
                "top_k": -1,
                "tensor_model_parallel_size": 1,
                "log_prob_micro_batch_size_per_gpu": training.micro_batch,
                # vLLM takes adapters beside base weights that it loads itself
                "load_format": "safetensors" if recipe.policy.lora else "dummy",
                "agent": {
                    "default_agent_loop": AGENT_LOOP,
                    "agent_loop_config_path": f"{FOLDER}/agent_loop.yaml",
                },
                "val_kwargs": {
                    "n": evaluation.samples,
                    "temperature": evaluation.temperature,
                    "top_p": 1.0,
                    "top_k": -1,
                    "do_sample": True,
                },
            },
        },
        "data": {
            "train_files": f"{FOLDER}/train.parquet",
            "val_files": f"{FOLDER}/test.parquet",
            "train_batch_size": sampling.prompts,
            "max_prompt_length": prompt_tokens,
            "max_response_length": sampling.max_new_tokens,
            "truncation": "error",
            "shuffle": True,
            "seed": training.seed,
        },
        "critic": {"enable": False},
        "reward": {
            "num_workers": 1,  # each starts task.workers processes of its own
            "reward_manager": {
                "source": "importlib",
                "name": "RecipeRewardManager",
                "module": {"path": f"{FOLDER}/reward.py"},
            },
        },
        "trainer": {
            "use_v1": True,
            "total_training_steps": training.steps,
            "total_epochs": -(-training.steps // steps_an_epoch),
            "test_freq": evaluation.every,
            "val_before_train": True,
            "save_freq": recipe.checkpoint.every,
            "max_actor_ckpt_to_keep": recipe.checkpoint.keep_last,
            "nnodes": 1,
            "n_gpus_per_node": 1,
            "logger": ["console"],
            "project_name": "botgrpo",
            "experiment_name": f"{recipe.name}-{recipe.scale}-{method.name}-seed{training.seed}",
        },
        "ray_kwargs": {"ray_init": {"runtime_env": {"env_vars": {"VERL_USE_EXTERNAL_MODULES": EXTERNAL_MODULE}}}},
    }


def _model(recipe: Recipe, model: str) -> dict[str, Any]:
    lora = recipe.policy.lora
    found: dict[str, Any] = {
        "path": model,
        "enable_gradient_checkpointing": recipe.policy.gradient_checkpointing,
        "lora_rank": lora.rank if lora else 0,
    }
    if lora:
        if lora.alpha != int(lora.alpha):
            raise InputError(f"policy.lora.alpha is {lora.alpha}; verl takes a whole number.")
        if lora.adapter and recipe.training.kl > 0:
            raise InputError(
                "verl takes the bare model as the reference of the KL of an adapter, and this recipe starts from "
                "policy.lora.adapter. Set training.kl=0, or train it with `botgrpo train`."
            )
        adapter = str(find_adapter(lora.adapter).resolve()) if lora.adapter else None
        found |= {"lora_alpha": int(lora.alpha), "target_modules": lora.targets, "lora_adapter_path": adapter}
    return found


def _actor(recipe: Recipe, method: Method) -> dict[str, Any]:
    training, prompts = recipe.training, recipe.sampling.prompts
    if prompts % method.minibatches:
        raise InputError(
            f"sampling.prompts is {prompts}; verl cuts a step between prompts, so it must be a multiple of the "
            f"{method.minibatches} minibatches of method '{method.name}'."
        )
    return {
        "ppo_mini_batch_size": prompts // method.minibatches,
        "ppo_micro_batch_size_per_gpu": training.micro_batch,
        "ppo_epochs": training.inner_epochs,
        "shuffle": method.minibatches > 1,
        "data_loader_seed": training.seed,
        "policy_loss": {"loss_mode": "gspo" if method.ratio == "sequence" else "vanilla"},
        "clip_ratio": method.clip_high,
        "clip_ratio_low": method.clip_low,
        "clip_ratio_high": method.clip_high,
        "clip_ratio_c": NO_DUAL_CLIP,
        "loss_agg_mode": AGGREGATION[method.aggregation],
        "loss_scale_factor": recipe.sampling.max_new_tokens if method.aggregation == "constant" else None,
        "entropy_coeff": 0,
        "use_kl_loss": training.kl > 0,
        "kl_loss_coef": training.kl,
        "kl_loss_type": "low_var_kl",  # k3
        "optim": {
            "lr": training.learning_rate,
            "lr_warmup_steps": training.warmup_steps,
            "weight_decay": training.weight_decay,
            "clip_grad": training.max_grad_norm,
        },
    }


def differences(recipe: Recipe) -> list[str]:
    """Sentences on what verl does otherwise than a native run of this recipe, for the reader of the folder."""
    method, evaluation = resolve(recipe.method), recipe.evaluation
    found = [
        "verl computes in bfloat16 with float32 weights; policy.dtype and policy.device are not used.",
        "Prompts of a step, and random numbers, are verl's own: a run is not the one that `botgrpo train` does.",
        "verl's `critic/score` and `critic/rewards` are sums of token rewards, so they grow with the length of a "
        "rollout. Look at the validation metrics: `global_reward`, the reward terms and the facts of the task.",
    ]
    if method.refills:
        found.append(
            f"Groups whose rollouts all score the same are replaced until the batch is full; the bound of "
            f"{method.refills} refills is not kept (verl's V1 sampler has none)."
        )
    if evaluation.max_new_tokens and evaluation.max_new_tokens != recipe.sampling.max_new_tokens:
        found.append(
            f"Validation stops at {recipe.sampling.max_new_tokens} tokens as training does; the "
            f"{evaluation.max_new_tokens} of evaluation.max_new_tokens are not used."
        )
    if recipe.training.warmup_steps:
        found.append("The learning rate of the first warm-up step is 0 in verl, and one part of the whole here.")
    return found
