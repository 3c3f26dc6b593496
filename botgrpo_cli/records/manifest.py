"""manifest.json: what a run was made with. It names no host, no user and no absolute path, so it can be published."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePath
from typing import Any

import psutil

import botgrpo_cli
from botgrpo_cli.errors import InputError
from botgrpo_cli.records.write import METRICS, to_json, write_atomic

MANIFEST = "manifest.json"
_LIBRARIES = ("torch", "transformers", "accelerate", "peft", "numpy")
_GIT_OVERRIDES = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
)  # set inside hooks; they name another tree


def write_manifest(folder: Path, data: Mapping[str, Any]) -> None:
    """Write `folder`/manifest.json in one rename: strict JSON, null for NaN, absolute paths cut to their last name.

    Raises RunError when it cannot be written.
    """
    text = to_json(_without_places(data), indent=2) + "\n"
    write_atomic(Path(folder) / MANIFEST, text.encode("ascii"))


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of the run in `folder`. Raises InputError when there is none or it is not a JSON object."""
    file = Path(folder) / MANIFEST
    try:
        data = json.loads(file.read_bytes())
    except OSError as error:
        raise InputError(f"The manifest {file} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise InputError(f"The manifest {file} is not JSON: {error}.") from error
    if not isinstance(data, dict):
        raise InputError(f"The manifest {file} must hold a JSON object.")
    return data


def digest(path: Path) -> str | None:
    """SHA-256 of a file in hexadecimal; None where there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def run_digest(folder: Path) -> str | None:
    """Tells a run from every other one: its metrics hold times, which no two runs share. None where there is no run."""
    return digest(Path(folder) / METRICS)


def hardware() -> dict[str, Any]:
    """CPU model, the cores this process may use, memory in GiB, GPUs and torch threads, on Linux and macOS."""
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cores": cores,
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "gpus": _gpus(torch),
        "torch_threads": torch.get_num_threads(),
    }


def software() -> dict[str, str | None]:
    """Versions of Python, botgrpo and the libraries that a result depends on; null for one that is not installed."""
    versions: dict[str, str | None] = {"python": platform.python_version(), "botgrpo": botgrpo_cli.__version__}
    for name in _LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    return versions


def git_state(path: Path) -> dict[str, Any] | None:
    """`{"commit", "dirty"}` of the repository that `path` belongs to; None without one, a commit in it, or git.

    A folder that its repository ignores (a package inside a virtual environment) does not belong to it.
    """
    commit = _git(path, "rev-parse", "--verify", "HEAD")
    if commit is None or _git(path, "check-ignore", "--quiet", ".") is not None:
        return None
    changes = _git(path, "status", "--porcelain")
    return {"commit": commit, "dirty": changes != ""}


def _git(path: Path, *arguments: str) -> str | None:
    """What git prints, or None when it fails."""
    clean = {key: value for key, value in os.environ.items() if key not in _GIT_OVERRIDES}
    try:
        done = subprocess.run(
            ["git", "-C", str(path), *arguments],
            capture_output=True,
            text=True,
            env={**clean, "GIT_OPTIONAL_LOCKS": "0"},  # reading the state must not touch the index
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _cpu_model() -> str:
    if sys.platform == "darwin":
        done = subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.strip()
    info = Path("/proc/cpuinfo")
    lines = info.read_text(errors="replace").splitlines() if info.is_file() else []
    for line in lines:
        if line.startswith("model name"):  # absent on most ARM machines
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _gpus(torch: Any) -> list[dict[str, Any]]:
    if torch.cuda.is_available():
        every = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
        return [{"name": gpu.name, "memory_gib": round(gpu.total_memory / 2**30, 1)} for gpu in every]
    if torch.backends.mps.is_available():
        return [{"name": "Apple GPU (mps)", "memory_gib": None}]
    return []


def _without_places(value: Any) -> Any:
    """`value` with absolute paths cut to `.../name` and the home folder inside longer texts replaced by `~`."""
    if isinstance(value, Mapping):
        return {str(key): _without_places(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_places(item) for item in value]
    if isinstance(value, PurePath):
        value = str(value)
    if not isinstance(value, str):
        return value
    if PurePath(value).is_absolute():
        return f".../{PurePath(value).name}"
    home = os.path.expanduser("~")  # unlike Path.home(), it does not fail for a user without one
    return value.replace(home, "~") if len(home) > 1 else value
