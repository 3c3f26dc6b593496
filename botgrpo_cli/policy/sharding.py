"""Parameters sharded over the processes of a run (FSDP2), and gathered again.

Torch's `fully_shard` on each layer and on the whole model. accelerate's preparation also makes a unit of the output
head, gathered when the head is called; here it never is (see logprobs.py), so the head stays with the whole model.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, distribute_tensor

from botgrpo_cli.errors import InputError
from botgrpo_cli.policy.load import Policy
from botgrpo_cli.policy.logprobs import shares_prompts


def shard(policy: Policy) -> None:
    """Keep only this process's part of each parameter; layers are gathered while they run, gradients summed.

    What samples must hold its own copy of the weights (`choose_decoder`): processes sample for different lengths.

    Raises:
        InputError: this torch is too old, or the model does not say which of its modules are layers.
    """
    from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method

    if not hasattr(FSDPModule, "set_force_sum_reduction_for_comms"):
        raise InputError(
            f"FSDP needs a newer torch than {torch.__version__}; without it, use recipes/accelerate/ddp.yaml."
        )
    model = policy.causal_lm
    layers = [m for m in model.modules() if type(m).__name__ in (model._no_split_modules or ())]
    if not layers:
        raise InputError(f"FSDP can't shard {policy.source}: {type(model).__name__} does not name its layers.")
    shares_prompts(policy)  # asks the model, which has to be whole for it
    mesh = init_device_mesh(policy.device.type, (torch.distributed.get_world_size(),))
    for module in (*layers, model):
        # Always gathered anew, the whole model's own parameters too: they may have been swapped in between.
        fully_shard(module, mesh=mesh, reshard_after_forward=True)
        # The sum of the processes' gradients, not their mean: token weights are those of the whole minibatch.
        module.set_gradient_divide_factor(1.0)
        module.set_force_sum_reduction_for_comms(True)
    model.run_inside = types.MethodType(_call, model)
    register_fsdp_forward_method(model, "run_inside")
    policy.sharded = True


def _call(_model: torch.nn.Module, function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def whole(tensor: Tensor) -> Tensor:
    """A sharded tensor gathered, which takes all processes; any other as it is."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def sharded_like(tensor: Tensor, like: Tensor) -> Tensor:
    """A whole tensor, the same on all processes, cut as `like` is."""
    if not isinstance(like, DTensor):
        return tensor
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def whole_state(model: torch.nn.Module, *, keep: bool) -> dict[str, Tensor]:
    """The model's state, gathered one tensor after the other, on the CPU; empty where it is not to be kept.

    Tied weights stay tied.
    """
    seen: dict[int, Tensor] = {}
    state = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            gathered = whole(tensor.detach())
            seen[id(tensor)] = gathered.cpu() if keep else torch.empty(0)
        state[name] = seen[id(tensor)]
    return state if keep else {}
