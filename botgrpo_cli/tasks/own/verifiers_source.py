"""Prompts and reward functions of a single-turn environment of verifiers: `verifiers:ENV`.

Of verifiers 0.2 and 0.3, that is: 0.4 has no `load_environment` and no rubrics any more.
"""

from __future__ import annotations

import copy
import hashlib
import importlib.util
import inspect
import json
import re
import signal
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path
from types import ModuleType
from typing import Any

from botgrpo_cli.errors import InputError, nearest
from botgrpo_cli.tasks.own.functions import Function, Rows

PREFIX = "verifiers:"
INSTALL = "pip install 'botgrpo[verifiers]'"
ONE_TURN = "expected a single-turn environment, in which one completion answers one prompt, without tools."
OWN_WAY = ("setup_state", "get_prompt_messages", "render_completion")  # that an environment may do in a way of its own
NO_COLUMNS = ("trainer_state", "log_extra", "log_metric")  # that a function of all completions is given beside them
KEPT = 4096  # states that are kept for the next function of the same completion


class VerifiersSource:
    """An environment. Its functions get what verifiers gives them: prompt and completion as messages, answer, info,
    task, state, the objects of their rubric (parser, judge, ...) and the other columns, as far as they ask for them.

    Functions of one completion share a `state` within a process. A function of a whole group is called once for the
    completions of each prompt. Columns of the rows are those of the environment's data; its system message and its
    examples stand in `prompt`. Weight 0 makes a metric of a function; values have no bounds.
    """

    def __init__(self, place: str, environment: Any, versions: dict[str, str]) -> None:
        self._place, self._environment, self.versions = place, environment, versions
        self._states: dict[tuple[str, str, bool, int], tuple[Any, Any]] = {}  # with the tokens of the completion
        self.functions: dict[str, tuple[Function, Callable[..., Any]]] = {}
        for rubric in _rubrics(environment.rubric, place):
            for call, weight in zip(rubric.funcs, rubric.weights, strict=True):
                self._add(rubric, call, float(weight))
        if not self.functions:
            raise InputError(f"{place}: its rubric has no reward functions.")

    def rows(self) -> Rows:
        """Raises InputError: there is nothing to train on, or a row that brings tools."""
        with _undisturbed():
            train, held_out = self._environment.build_dataset(), self._environment.build_eval_dataset()
        if train is None:
            raise InputError(f"{self._place} has data for evaluation alone; expected a data set to train on.")
        found = {"train": train.to_list()} | ({"held-out": held_out.to_list()} if held_out is not None else {})
        for split, rows in found.items():
            for number, row in enumerate(rows, start=1):
                info = row.get("info")
                if '"tool_defs"' in info if isinstance(info, str) else info and info.get("tool_defs"):
                    raise InputError(f"{self._place}: row {number} ({split}) has tools in info.tool_defs; {ONE_TURN}")
        return found

    def _add(self, rubric: Any, call: Callable[..., Any], weight: float) -> None:
        own = re.sub(r"\W+", "_", getattr(call, "__name__", type(call).__name__)).strip("_")
        name, number = own, 1
        while name in self.functions:  # two rubrics of a group may have functions of one name
            name, number = f"{own}_{number + 1}", number + 1
        batch = rubric._is_group_func(call)
        doc = " ".join((inspect.getdoc(call) or "").split("\n\n")[0].split())
        kind = "term" if weight else "metric"
        function = Function(name, kind, batch=batch, doc=doc, place=_written_at(call), weight=weight)
        self.functions[name] = (function, self._of_group(rubric, call) if batch else self._of_one(rubric, call))

    def _of_one(self, rubric: Any, call: Callable[..., Any]) -> Callable[..., Any]:
        def score(text: str, tokens: Any, **row: Any) -> Any:
            return _called(call, rubric.score_objects(self._state(text, {**row, "tokens": tokens})))

        async def score_later(text: str, tokens: Any, **row: Any) -> Any:
            return await score(text, tokens, **row)

        return score_later if _asynchronous(call) else score

    def _of_group(self, rubric: Any, call: Callable[..., Any]) -> Callable[..., Any]:
        def groups(
            completions: Sequence[Any], prompts: Sequence[Any], columns: Mapping[str, Any]
        ) -> list[tuple[list[int], dict[str, Any]]]:
            """For each prompt the indices of its completions, and what the function may ask for."""
            found: dict[str, list[int]] = {}
            states = []
            for index, (completion, prompt) in enumerate(zip(completions, prompts, strict=True)):
                text = completion if isinstance(completion, str) else completion[-1]["content"]
                row = {name: values[index] for name, values in columns.items() if name not in NO_COLUMNS}
                states.append(self._state(text, {**row, "prompt": prompt}))
                found.setdefault(row["prompt_id"], []).append(index)
            return [(group, rubric.group_score_objects([states[index] for index in group])) for group in found.values()]

        def score(completions: Sequence[Any], prompts: Sequence[Any], tokens: Any, **columns: Any) -> list[Any]:
            made = groups(completions, prompts, {**columns, "tokens": tokens})
            return _in_order([(group, _called(call, objects)) for group, objects in made])

        async def score_later(
            completions: Sequence[Any], prompts: Sequence[Any], tokens: Any, **columns: Any
        ) -> list[Any]:
            made = groups(completions, prompts, {**columns, "tokens": tokens})
            return _in_order([(group, await _called(call, objects)) for group, objects in made])

        return score_later if _asynchronous(call) else score

    def _state(self, text: str, row: Mapping[str, Any]) -> Any:
        """The state of a completion, as a rollout of verifiers would have left it."""
        # The tokens are one object a completion, and kept so that it stays one: they tell two of the same text apart.
        key = (row["prompt_id"], text, row["finished"], id(row["tokens"]))
        if key not in self._states:
            if len(self._states) == KEPT:
                del self._states[next(iter(self._states))]
            self._states[key] = (row["tokens"], _new_state(text, row))
        return self._states[key][1]


def load(name: str, options: Mapping[str, Any]) -> VerifiersSource:
    """The environment `name`, made by its module's `load_environment(**options)`; only in the main thread.

    Raises InputError: verifiers or the environment is missing, it has no such option, fails to load, or is none of a
    single turn.
    """
    place = f"{PREFIX}{name}"
    try:
        import verifiers
    except ImportError:
        raise InputError(f"{place} needs the library verifiers: {INSTALL}.") from None
    if not hasattr(verifiers, "load_environment"):
        raise InputError(
            f"{place} needs verifiers 0.2 or 0.3, which can load environments; {version('verifiers')} is installed: "
            f"{INSTALL}."
        )
    if name.endswith(".py"):
        sys.path.insert(0, str(Path(name).parent))  # this process is there for nothing else
        name = Path(name).stem
    with _undisturbed():
        module = _module(name, place)
        _check_options(module, options, place)
        try:
            environment = verifiers.load_environment(name, **options)
        except Exception as problem:
            raise InputError(f"{place} could not be loaded: {_words(problem.__cause__ or problem)}.") from problem
    _check_single_turn(environment, place)
    return VerifiersSource(place, environment, {"verifiers": version("verifiers"), module.__name__: _version(module)})


@contextmanager
def _undisturbed() -> Iterator[None]:
    """An environment takes over Ctrl-C and SIGTERM as it is made, and draws progress bars: neither outlives this."""
    import datasets

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    bars = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if bars:
            datasets.enable_progress_bars()
        for number, handler in handlers.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)


def _module(name: str, place: str) -> ModuleType:
    """The environment's module, found as verifiers finds it."""
    own = name.replace("-", "_").split("/")[-1]
    if not own.isidentifier() or importlib.util.find_spec(own) is None:
        installed = [found.name for found in distributions() if any(map(_is_verifiers, found.requires or ()))]
        there = f" Installed: {', '.join(sorted(installed))}." if installed else ""
        raise InputError(f"{place}: no environment '{name}' is installed.{there}{nearest(name, installed)}")
    try:
        module = importlib.import_module(own)
    except Exception as problem:
        raise InputError(f"{place} could not be imported: {_words(problem)}.") from problem
    if not hasattr(module, "load_environment"):
        raise InputError(
            f"{place}: the module {own} has no load_environment. It is no environment, or one of verifiers.v1, which "
            "can't be used here."
        )
    return module


def _is_verifiers(requirement: str) -> bool:
    return re.match(r"verifiers(?![\w.-])", requirement) is not None and "extra ==" not in requirement


def _check_options(module: ModuleType, options: Mapping[str, Any], place: str) -> None:
    parameters = inspect.signature(module.load_environment).parameters.values()
    known = [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
    for option in options:
        if option not in known and len(known) == len(parameters):
            expected = f"expected one of {', '.join(known)}" if known else "it takes none"
            raise InputError(f"{place} has no option '{option}'; {expected}.{nearest(option, known)}")


def _check_single_turn(environment: Any, place: str) -> None:
    from verifiers import EnvGroup, SingleTurnEnv

    if isinstance(environment, EnvGroup):
        names = ", ".join(environment.env_names)
        raise InputError(f"{place} is a group of environments ({names}), which can't be used; name one of them.")
    if not isinstance(environment, SingleTurnEnv):
        raise InputError(f"{place} is a {type(environment).__name__}, with several turns; {ONE_TURN}")
    if environment.tool_defs:
        tools = ", ".join(tool.name for tool in environment.tool_defs)
        raise InputError(f"{place} has tools ({tools}); {ONE_TURN}")
    own = [name for name in OWN_WAY if getattr(type(environment), name) is not getattr(SingleTurnEnv, name)]
    if own:
        raise InputError(
            f"{place} has rollouts of its own ({', '.join(own)} of {type(environment).__name__}); {ONE_TURN}"
        )


def _rubrics(rubric: Any, place: str) -> Iterator[Any]:
    """The rubrics of a group, and of groups in it."""
    from verifiers import Rubric, RubricGroup
    from verifiers.envs.multiturn_env import MultiTurnMonitorRubric

    if isinstance(rubric, RubricGroup):
        for each in rubric.rubrics:
            yield from _rubrics(each, place)
    elif any(getattr(type(rubric), name) is not getattr(Rubric, name) for name in ("score_rollout", "score_group")):
        raise InputError(f"{place}: {type(rubric).__name__} scores in a way of its own; expected reward functions.")
    elif not isinstance(rubric, MultiTurnMonitorRubric):  # it counts turns
        yield rubric


def _new_state(text: str, row: Mapping[str, Any]) -> Any:
    from verifiers.types import AssistantMessage, Response, ResponseMessage, RolloutTiming, State, flatten_task_input
    from verifiers.utils.message_utils import normalize_messages

    row = copy.deepcopy(dict(row))  # functions may change what they get
    if isinstance(row.get("info"), str):
        row["info"] = json.loads(row["info"])
    task = flatten_task_input(row)
    truncated = not row["finished"]
    prompt, completion = normalize_messages(row["prompt"]), [AssistantMessage(content=text)]
    message = ResponseMessage(content=text, finish_reason="length" if truncated else "stop", is_truncated=truncated)
    response = Response(id="", created=0, model="", message=message)
    turn = {"prompt": prompt, "completion": completion, "response": response, "is_truncated": truncated}
    turn |= {"tokens": None, "reward": None, "advantage": None, "extras": {}, "trajectory_id": uuid.uuid4().hex}
    state = State(input=task)
    state["task"], state["prompt"], state["completion"], state["trajectory"] = task, prompt, completion, [turn]
    state["trajectory_id"], state["timing"], state["sampling_args"] = turn["trajectory_id"], RolloutTiming(), {}
    state["is_completed"], state["is_truncated"], state["stop_condition"] = True, truncated, "max_turns_reached"
    state["client"] = state["reward"] = state["metrics"] = state["error"] = state["final_env_response"] = None
    state["model"], state["tool_defs"] = "", []
    return state


def _called(call: Callable[..., Any], objects: Mapping[str, Any]) -> Any:
    parameters = inspect.signature(call).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return call(**objects)
    return call(**{name: value for name, value in objects.items() if name in parameters})


def _in_order(scores: Sequence[tuple[list[int], Sequence[Any]]]) -> list[Any]:
    """The values of groups in the order of the completions. ValueError unless there is one for each of a group."""
    values = {index: value for group, found in scores for index, value in zip(group, found, strict=True)}
    return [values[index] for index in sorted(values)]


def _asynchronous(call: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__)


def _written_at(call: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(call), "__code__", None)  # an object with __call__ has none
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}" if code else ""


def _version(module: ModuleType) -> str:
    """Of the package that bears the module's name, else a digest of the file."""
    try:
        return version(module.__name__)
    except PackageNotFoundError:
        return f"sha256:{hashlib.sha256(Path(inspect.getfile(module)).read_bytes()).hexdigest()[:16]}"


def _words(problem: BaseException) -> str:
    text = " ".join(str(problem).split()).rstrip(".")
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__
