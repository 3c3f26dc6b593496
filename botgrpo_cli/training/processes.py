"""The processes of a run, as `accelerate launch` or `torchrun` starts them; a run alone is the case of one.

Every process holds the same weights and the whole batch: each samples and scores its block of the prompts, the parts
are gathered, and from there on all of them compute the same, but for the forward and backward passes of an update,
which are dealt out. Objects and flags go over gloo, gradients over the backend of their device (NCCL on GPUs).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

from botgrpo_cli.errors import InputError, RunError

if TYPE_CHECKING:
    import torch

T = TypeVar("T")

# What a launcher tells each process that it starts.
LAUNCHED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
# Until a process counts as lost. Launchers notice one that ended at once; this only bounds real waiting, such as for
# the slowest sampler.
PATIENCE = timedelta(hours=2)
BUCKET = 1 << 26  # gradient elements a message: 256 MB in float32


@dataclass(frozen=True)
class Processes:
    """How many processes work on a run, and which of them this one is. Every method is called by all of them."""

    count: int = 1
    rank: int = 0
    local_count: int = 1  # on this machine
    local_rank: int = 0
    sharded: bool = False  # parameters are sharded over the processes (FSDP)

    @property
    def alone(self) -> bool:
        return self.count == 1

    @property
    def main(self) -> bool:
        """The one that writes and prints."""
        return self.rank == 0

    @property
    def strategy(self) -> str:
        return "single" if self.alone else "fsdp" if self.sharded else "ddp"

    def block(self, items: Sequence[T]) -> Sequence[T]:
        """This process's part of `items`: contiguous, and as large as the others' to within one."""
        first, last = (len(items) * r // self.count for r in (self.rank, self.rank + 1))
        return items[first:last]

    def gather(self, item: T) -> list[T]:
        """The `item` of every process, in order of their ranks."""
        if self.alone:
            return [item]
        import torch.distributed as dist

        found: list[T | None] = [None] * self.count
        dist.all_gather_object(found, item)
        return found

    def any(self, flag: bool) -> bool:
        if self.alone:
            return flag
        import torch

        return bool(self.sum(torch.tensor(int(flag))))

    def sum(self, tensor: torch.Tensor) -> torch.Tensor:
        """`tensor` summed over the processes, in place; the result is the same bits everywhere."""
        if not self.alone:
            import torch.distributed as dist

            dist.all_reduce(tensor)
        return tensor

    def sum_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Sum the gradients over the processes; one that had no rows takes part with zeros. FSDP has done it already.

        Gradients of one optimizer step add up to those of the whole minibatch, because token weights are those of the
        whole: a sum, where DDP takes a mean.
        """
        if self.alone or self.sharded:
            return
        import torch

        for bucket in _buckets(parameters):
            flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket])
            for p, part in zip(bucket, self.sum(flat).split([p.numel() for p in bucket]), strict=True):
                p.grad = part.view_as(p)

    def same(self, tensors: Iterable[torch.Tensor]) -> None:
        """Give every process the main one's values, in place."""
        if not self.alone:
            import torch.distributed as dist

            for tensor in tensors:
                dist.broadcast(tensor.detach(), src=0)

    @contextlib.contextmanager
    def agreed(self) -> Iterator[None]:
        """What one process raises in the body, all raise at its end. The body must not wait for other processes.

        An interruption goes before errors, then the lowest rank before others: all raise the same kind.
        """
        if self.alone:
            yield
            return
        mine: BaseException | None = None
        try:
            yield
        except BaseException as error:
            mine = error
        reports = [(*report, rank) for rank, report in enumerate(self.gather(_report(mine))) if report]
        if not reports:
            return
        kind, text, rank = min(reports, key=lambda r: (r[0] != "interrupt", r[2]))
        if mine is not None and rank == self.rank:
            raise mine
        if kind == "interrupt":
            raise KeyboardInterrupt from mine
        if kind == "input":
            raise InputError(text) from mine
        raise RunError(text if kind == "run" else f"Process {rank} of {self.count} failed: {text}") from mine

    def leave(self) -> None:
        """End the connection; the process goes on alone."""
        if not self.alone:
            import torch.distributed as dist

            dist.destroy_process_group()


ALONE = Processes()


def launched(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a launcher started this process as one of several."""
    return all(name in environment for name in LAUNCHED) and int(environment["WORLD_SIZE"]) > 1


def is_main() -> bool:
    """Whether this process is the one that prints. Known before the processes are connected."""
    return not launched() or int(os.environ["RANK"]) == 0


def join() -> Processes:
    """Connect with the other processes of a launcher; without one, `ALONE` and no import of torch.

    Raises:
        InputError: the launcher is set up for something that botgrpo does not do.
    """
    refuse_other_launches(os.environ)
    return connect(sharded=_flag(os.environ, "ACCELERATE_USE_FSDP")) if launched() else ALONE


def connect(*, sharded: bool = False) -> Processes:
    """`join` for a process that a launcher started, whatever else the launcher is set up for."""
    environment = os.environ
    # transformers would load the weights on one process alone; each one's sampler needs them.
    environment["FSDP_CPU_RAM_EFFICIENT_LOADING"] = "false"
    import torch
    import torch.distributed as dist

    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    if not dist.is_initialized():
        dist.init_process_group(backend, timeout=PATIENCE)
    count = int(environment["WORLD_SIZE"])
    return Processes(
        count=count,
        rank=int(environment["RANK"]),
        local_count=int(environment.get("LOCAL_WORLD_SIZE", count)),
        local_rank=int(environment["LOCAL_RANK"]),
        sharded=sharded,
    )


def refuse_other_launches(environment: Mapping[str, str]) -> None:
    """Say at once what would otherwise run as something else than was asked for.

    Raises:
        InputError: names the setting and what to write instead.
    """
    if "ACCELERATE_MIXED_PRECISION" in environment and "MASTER_ADDR" in environment and "RANK" not in environment:
        # With several processes asked for, but no several GPUs, accelerate starts one and says nothing.
        raise InputError(
            "accelerate was asked for several processes and started one, as it does without several GPUs. Add "
            "--multi_gpu to `accelerate launch` (it is right for CPUs too), or use `torchrun --nproc_per_node N -m "
            "botgrpo_cli ...`."
        )
    for name, word in (("ACCELERATE_USE_DEEPSPEED", "DeepSpeed"), ("ACCELERATE_USE_MEGATRON_LM", "Megatron-LM")):
        if _flag(environment, name):
            raise InputError(
                f"The launcher is configured for {word}; expected distributed_type MULTI_GPU or FSDP, as in "
                "recipes/accelerate/ddp.yaml and fsdp.yaml."
            )
    if not _flag(environment, "ACCELERATE_USE_FSDP"):
        return
    version = environment.get("FSDP_VERSION", "1")
    if version != "2":
        raise InputError(f"fsdp_version is {version}; expected 2, as in recipes/accelerate/fsdp.yaml.")
    if _flag(environment, "FSDP_OFFLOAD_PARAMS"):
        raise InputError("fsdp_offload_params is true; expected false: parameters stay on the device here.")
    if environment.get("FSDP_RESHARD_AFTER_FORWARD") == "false":
        raise InputError("fsdp_reshard_after_forward is false; expected true: the reference is swapped in in between.")


def _flag(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(name, "false").lower() in ("true", "1")


def _report(error: BaseException | None) -> tuple[str, str] | None:
    """(kind, text) of an exception, as it travels to the other processes."""
    if error is None:
        return None
    if isinstance(error, KeyboardInterrupt):
        return "interrupt", ""
    kind = "input" if isinstance(error, InputError) else "run" if isinstance(error, RunError) else "other"
    return kind, str(error) if kind != "other" else f"{type(error).__name__}: {error}"


def _buckets(parameters: Iterable[torch.nn.Parameter]) -> Iterator[list[torch.nn.Parameter]]:
    """Runs of parameters of one dtype, up to BUCKET elements each unless one alone is larger."""
    for _, alike in groupby(parameters, key=lambda p: p.dtype):
        bucket: list[torch.nn.Parameter] = []
        for p in alike:
            if bucket and sum(q.numel() for q in bucket) + p.numel() > BUCKET:
                yield bucket
                bucket = []
            bucket.append(p)
        yield bucket
