"""From what a recipe names to functions that can be called: a file of the user's, or an environment of a library."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import inspect
import linecache
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from botgrpo_cli.errors import InputError
from botgrpo_cli.tasks.own.arguments import Bound, bind
from botgrpo_cli.tasks.own.declare import NOTE, Declaration
from botgrpo_cli.tasks.own.functions import Function, Rows, Source
from botgrpo_cli.tasks.own.messages import Description

EVERY_COMPLETION = ("completions", "completion_ids")  # a parameter of that name: TRL's form, all in one call
FORMS = "'text' as its first parameter, or 'completions' for all of them in one call"
_CACHED = type(functools.cache(lambda: None))
_LIBRARIES = {"site-packages", "dist-packages", "botgrpo_cli"}  # in the user's folder, yet not the user's
_DEF = re.compile(r"\s*(async\s+def|def|class)\b|.*\blambda\b")


@dataclass(frozen=True)
class Loaded:
    source: Source
    bound: dict[str, Bound]
    description: Description
    folder: Path | None = None  # of the file


class FileSource:
    """Functions of a file. It has no prompts of its own."""

    def __init__(self, functions: dict[str, tuple[Function, Callable[..., Any]]], versions: dict[str, str]) -> None:
        self.functions = functions
        self.versions = versions

    def rows(self) -> Rows | None:
        return None


def load(spec: str, options: Mapping[str, Any]) -> Loaded:
    """`spec`: a path of a .py file, `verifiers:ENV` or `reasoning-gym:NAME`. Raises InputError."""
    kind, _, name = spec.partition(":")
    if kind in ("verifiers", "reasoning-gym"):
        return _described(_library(kind, name, options))
    path = Path(spec).resolve()
    if options:
        raise InputError(f"{path.name} takes no options; got {', '.join(options)}.")
    if not path.is_file() or path.suffix != ".py":
        raise InputError(f"{spec} is no Python file that exists; expected a path that ends in .py.")
    module = _imported(path)
    functions = dict(_found(module, path))
    files = tuple(str(file) for file in _siblings(path))
    tasks = tuple(_tasks(module))
    if not functions and not tasks:
        raise InputError(
            f"{path.name} has no function to call. Expected a public function with {FORMS}; or one under @term, "
            f"@signal or @metric of botgrpo_cli.{_there_are(module)}"
        )
    versions = {_relative(file, path.parent): _digest(file) for file in (str(path), *files)}
    return _described(FileSource(functions, versions), tasks, files, path.parent)


def _library(kind: str, name: str, options: Mapping[str, Any]) -> Source:
    try:
        if kind == "verifiers":
            from botgrpo_cli.tasks.own import verifiers_source as library
        else:
            from botgrpo_cli.tasks.own import gym_source as library
        return library.load(name, dict(options))
    except InputError:
        raise
    except BaseException as problem:
        raise InputError(f"{kind}:{name} could not be loaded: {worded(problem)}.") from problem


def _described(
    source: Source, tasks: tuple[str, ...] = (), files: tuple[str, ...] = (), folder: Path | None = None
) -> Loaded:
    bound = {name: bind(function, call) for name, (function, call) in source.functions.items()}
    description = Description(
        functions={name: one.function for name, one in bound.items()},
        versions=dict(source.versions),
        required={name: one.only_columns for name, one in bound.items()},
        asked={name: one.asks_for for name, one in bound.items()},
        concurrent=frozenset(name for name, one in bound.items() if one.asynchronous and not one.function.batch),
        tasks=tasks,
        files=files,
    )
    return Loaded(source, bound, description, folder)


def _imported(path: Path) -> ModuleType:
    """The file as a module; the modules beside it can be imported, as when it is run."""
    name = path.stem
    if name in sys.modules or name in sys.stdlib_module_names:  # a file may well be called random.py
        name = f"own_{name}"
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        # Not by the module's loader: its cache of compiled files takes an edit within one second for no edit.
        exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), vars(module))
    except BaseException as problem:
        raise InputError(_why_not_imported(problem, path)) from problem
    return module


def _why_not_imported(problem: BaseException, path: Path) -> str:
    places = own_places(problem.__traceback__, path.parent)
    if isinstance(problem, SyntaxError) and problem.filename and Path(problem.filename).is_relative_to(path.parent):
        places.append(f"{_relative(problem.filename, path.parent)}:{problem.lineno}")
    here = [place for place in places if place.rpartition(":")[0] == path.name]
    words = str(problem).rstrip(".") if isinstance(problem, InputError) else worded(problem)
    elsewhere = f" ({places[-1]})" if here and here[-1] != places[-1] else ""
    hint = "; it ends when it is imported. Put what it runs under `if __name__ == '__main__':`"
    return f"{here[-1] if here else path.name}: {words}{elsewhere}{hint if isinstance(problem, SystemExit) else ''}."


def _found(module: ModuleType, path: Path) -> Iterator[tuple[str, tuple[Function, Callable[..., Any]]]]:
    seen: set[int] = set()
    for name, call in list(vars(module).items()):
        note = _note(call)
        if id(call) in seen or not (note or _is_public(name, call, module)):
            continue
        batch = _form(call)
        if batch is None:
            if note is None:
                continue
            place = _place(call, path)
            raise InputError(f"{place}: {name}{_signature(call)} is under @{note.kind}; expected {FORMS}.")
        seen.add(id(call))
        note = note or Declaration("term", None, ..., ...)
        # Without bounds of its own a decorator changes nothing: those of the form hold.
        default = (None, None) if batch else (0.0, 1.0)
        low, high = (d if bound is ... else bound for bound, d in zip((note.low, note.high), default, strict=True))
        doc = " ".join((inspect.getdoc(call) or "").split("\n\n")[0].split())
        yield name, (Function(name, note.kind, note.unit, batch, low, high, doc, _place(call, path)), call)


def _note(call: Any) -> Declaration | None:
    try:
        note = getattr(call, NOTE, None) if callable(call) and not inspect.isclass(call) else None
    except Exception:  # a proxy that isn't connected to anything yet
        return None
    return note if isinstance(note, Declaration) else None  # torch.ops has an attribute of every name


def _is_public(name: str, call: Any, module: ModuleType) -> bool:
    """A function that the file defines, also under functools.cache."""
    defined = inspect.isfunction(call) or isinstance(call, _CACHED)
    return defined and not name.startswith("_") and call.__module__ == module.__name__


def _form(call: Callable[..., Any]) -> bool | None:
    """Whether it is in batch form; None: it is in neither."""
    try:
        parameters = inspect.signature(call).parameters
    except (TypeError, ValueError):
        return None
    first = next(iter(parameters.values()), None)
    if first and first.name == "text" and first.kind is not first.KEYWORD_ONLY:
        return False
    return True if any(name in parameters for name in EVERY_COMPLETION) else None


def _place(call: Any, path: Path) -> str:
    code = getattr(inspect.unwrap(call), "__code__", None)
    if code is None:  # an object with __call__
        return path.name
    line = code.co_firstlineno  # of its first decorator
    while not _DEF.match(text := linecache.getline(code.co_filename, line)) and text:
        line += 1
    return f"{_relative(code.co_filename, path.parent)}:{line}"


def _tasks(module: ModuleType) -> Iterator[str]:
    base = sys.modules.get("botgrpo_cli.tasks.base")  # a file with a task has imported it
    for name, value in vars(module).items():
        if base and inspect.isclass(value) and value.__module__ == module.__name__ and base.Task in value.__mro__:
            yield name


def _siblings(path: Path) -> list[Path]:
    """Files of the modules that were found in the file's own folder, in order."""
    found = set()
    for name, module in list(sys.modules.items()):
        top = name.partition(".")[0]
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or top == "botgrpo_cli" or Path(file) == path:
            continue
        file = Path(file).resolve()
        if file.is_relative_to(path.parent) and file.relative_to(path.parent).parts[0] in (top, f"{top}.py"):
            found.add(file)
    return sorted(found - {path})


def own_places(traceback: TracebackType | None, folder: Path | None) -> list[str]:
    """ "sums.py:14" for each frame of a traceback in the user's own folder, outermost first."""
    places: list[str] = []
    while traceback is not None and folder is not None:
        file = Path(traceback.tb_frame.f_code.co_filename)
        if file.is_relative_to(folder) and not _LIBRARIES & {*file.relative_to(folder).parts}:
            places.append(f"{_relative(file, folder)}:{traceback.tb_lineno}")
        traceback = traceback.tb_next
    return places


def worded(problem: BaseException) -> str:
    """ "ZeroDivisionError: division by zero", on one line."""
    try:
        text = problem.msg if isinstance(problem, SyntaxError) else str(problem)
    except Exception:
        text = ""
    text = " ".join(str(text).split())[:300].rstrip(".")
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__


def _relative(file: str | Path, folder: Path) -> str:
    file = Path(file)
    return file.relative_to(folder).as_posix() if file.is_relative_to(folder) else file.name


def _digest(file: str) -> str:
    return f"sha256:{hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]}"


def _signature(call: Callable[..., Any]) -> str:
    try:
        return f"({', '.join(inspect.signature(call).parameters)})"
    except (TypeError, ValueError):
        return ""


def _there_are(module: ModuleType) -> str:
    public = [f"{name}{_signature(call)}" for name, call in vars(module).items() if _is_public(name, call, module)]
    return f" It has {', '.join(public[:5])}{', …' if len(public) > 5 else ''}." if public else ""
