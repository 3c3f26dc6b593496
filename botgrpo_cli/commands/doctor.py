"""`botgrpo doctor`: what is here, what is missing, and the one command that mends each."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import typer

from botgrpo_cli import __version__
from botgrpo_cli.cache import cache_root
from botgrpo_cli.console import console
from botgrpo_cli.tasks.needs import Finding

DISK_NEEDED = 500_000_000  # bytes: a task's tools, a run's records and checkpoints at tiny scale


def doctor() -> None:
    """Show what is here and what is missing. Exit code 0 when the tiny scale can run, else 1."""
    findings = examine()
    print_findings(findings)
    if any(finding.state == "missing" for finding in findings):
        raise typer.Exit(1)


def examine() -> list[Finding]:
    """Every check, in the order of the table. Installs nothing and reaches no network."""
    from botgrpo_cli.tasks.registry import shipped_tasks

    return [
        _python(),
        _torch(),
        _accelerator(),
        *(_package(name) for name in ("transformers", "peft", "accelerate")),
        _tiny_weights(),
        *(finding for task in shipped_tasks() for finding in task.findings()),
        *_plugins(),
        _disk(),
        _small_model(),
        _gguf(),
        _judge(),
    ]


def print_findings(findings: list[Finding]) -> None:
    from rich.table import Table

    out = console()
    if not out.is_terminal:
        out.width = 160  # a file or a pipe has no width of its own; 80 would break paths
    marks = {"ok": "[green]ok[/]", "absent": "[yellow]absent[/]", "missing": "[bold red]missing[/]"}
    table = Table(title=f"botgrpo {__version__} · cache {cache_root()}", title_justify="left", box=None, pad_edge=False)
    for heading in ("", "part", "found", "to get it, run"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        table.add_row(marks[finding.state], finding.part, finding.found, finding.mend)
    out.print(table)
    missing = [finding.part for finding in findings if finding.state == "missing"]
    if missing:
        out.print(f"\nThe tiny scale cannot run yet: {', '.join(missing)} missing.")
    else:
        out.print("\nThe tiny scale can run: botgrpo train react_qwen --scale tiny")


def _python() -> Finding:
    return Finding("Python", "ok", f"{platform.python_version()} ({sys.executable})")


def _torch() -> Finding:
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: a shared library does not load
        return Finding("torch", "missing", str(error).splitlines()[0], "pip install torch")
    found = f"{torch.__version__}, {torch.get_num_threads()} threads of {os.cpu_count()} cores"
    if importlib.util.find_spec("transformers"):
        from botgrpo_cli.policy.load import choose_dtype

        computes = str(choose_dtype("auto", torch.device("cpu"))).removeprefix("torch.")
        found += f", computes in {computes} on the CPU"
    return Finding("torch", "ok", found)


def _accelerator() -> Finding:
    if importlib.util.find_spec("torch") is None:
        return Finding("GPU", "absent", "not looked for: torch is missing")
    import torch

    if torch.cuda.is_available():
        memory = torch.cuda.get_device_properties(0).total_memory / 2**30
        found = f"{torch.cuda.device_count()} x {torch.cuda.get_device_name(0)}, {memory:.0f} GiB"
        native = torch.cuda.is_bf16_supported(including_emulation=False)
        return Finding("GPU", "ok", found + (", bfloat16" if native else ", no bfloat16"))
    if torch.backends.mps.is_available():
        return Finding("GPU", "ok", "Apple (mps)")
    return Finding("GPU", "absent", "none; only the paper scale needs one")


def _package(name: str) -> Finding:
    try:
        return Finding(name, "ok", version(name))
    except PackageNotFoundError:
        return Finding(name, "missing", "not installed", f"pip install {name}")


def _tiny_weights() -> Finding:
    from botgrpo_cli.tiny import WEIGHTS

    names = sorted(path.parent.name for path in WEIGHTS.glob("*/model.safetensors"))
    if not names:
        return Finding("tiny policy", "missing", f"none in {WEIGHTS}", "python -m botgrpo_cli.tiny build")
    return Finding("tiny policy", "ok", ", ".join(names))


def _plugins() -> Iterator[Finding]:
    """Tasks of installed packages, each with what it says of itself."""
    from botgrpo_cli.errors import InputError
    from botgrpo_cli.tasks.registry import find_task, plugins

    for name in plugins():
        try:
            task, _ = find_task(name)
        except InputError as problem:
            yield Finding(f"task {name}", "absent", str(problem))
            continue
        yield Finding(f"task {name}", "ok", f"{task.__module__}.{task.__qualname__}")
        yield from task.findings()


def _disk() -> Finding:
    folders = {"the cache": _existing(cache_root()), "this folder": Path.cwd()}
    free = {name: shutil.disk_usage(folder).free for name, folder in folders.items()}
    found = ", ".join(f"{size / 1e9:.1f} GB free for {name}" for name, size in free.items())
    if min(free.values()) >= DISK_NEEDED:
        return Finding("disk", "ok", found)
    return Finding("disk", "missing", f"{found}; {DISK_NEEDED / 1e9:.1f} GB are needed", "export BOTGRPO_CACHE=FOLDER")


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.is_dir())


def _small_model() -> Finding:
    from botgrpo_cli.policy.small import MODELS, small_folder

    name = next(iter(MODELS))
    folder = small_folder(name)
    if folder.is_dir():
        return Finding("small model", "ok", str(folder))
    return Finding("small model", "absent", f"{MODELS[name].title}, for --scale small", "botgrpo setup small")


def _gguf() -> Finding:
    if importlib.util.find_spec("gguf"):
        return Finding("gguf", "ok", version("gguf"))
    return Finding("gguf", "absent", "for --scale small without a model hub", "pip install 'botgrpo[small]'")


def _judge() -> Finding:
    """Looks at the environment alone: `botgrpo setup judge` asks the server."""
    from botgrpo_cli.judges.settings import MODEL_VARIABLE, URL_VARIABLE, host_of, problems, resolve
    from botgrpo_cli.recipe.schema import JudgeConfig

    if not os.environ.get(URL_VARIABLE):
        return Finding("judge", "absent", "no server; runs use the offline heuristic judge", "botgrpo setup judge")
    config = JudgeConfig(kind="openai")
    if found := problems(config):
        key, text = found[0]
        return Finding(
            "judge", "absent", f"{key}: {text}", f"export {MODEL_VARIABLE if key == 'model' else URL_VARIABLE}=..."
        )
    settings = resolve(config)
    key = f"key from {settings.key_from}" if settings.key_from else "no key"
    return Finding("judge", "ok", f"{settings.model} at {host_of(settings.url or '')}, {key}; not asked here")
