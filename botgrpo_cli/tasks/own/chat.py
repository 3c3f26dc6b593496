"""A prompt as its data has it, a text or chat messages: checked, put into an instruction, below a system message."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from botgrpo_cli.errors import InputError, nearest

Chat = list[dict[str, str]]

ROLES = ("system", "user", "assistant", "tool")
SHOWN = 60  # characters of a value in a message

_PLACE = re.compile(r"(\\[A-Za-z]+)?\{([^{}]+)\}")  # with the command before it, whose braces are no place


def read_prompt(value: Any) -> str | Chat:
    """A text as it is, or chat messages with role and content alone. ValueError with a sentence for anything else."""
    if isinstance(value, str) and value.strip():
        return value
    if value is None or value in ("", []) or isinstance(value, str):
        raise ValueError("the prompt is empty.")
    if not isinstance(value, list):
        raise ValueError(f"expected a text or a list of chat messages, found {_shown(value)}.")
    messages = [_message(message, number) for number, message in enumerate(value, start=1)]
    if messages[-1]["role"] == "assistant":
        raise ValueError("the last message is the assistant's, which is for the policy to write; leave it out.")
    return messages


def _message(value: Any, number: int) -> dict[str, str]:
    if not isinstance(value, Mapping) or not {"role", "content"} <= value.keys():
        raise ValueError(f'expected {{"role": …, "content": …}} as message {number}, found {_shown(value)}.')
    role, content = value["role"], value["content"]
    if role not in ROLES:
        raise ValueError(
            f"message {number} has the role {_shown(role)}; expected one of {', '.join(ROLES)}.{nearest(role, ROLES)}"
        )
    if not isinstance(content, str):
        raise ValueError(f"message {number} has the content {_shown(content)}; expected a text.")
    return {"role": role, "content": content}


def same_prompt(given: str | Chat, also: Iterable[Any] = ()) -> str:
    """A key that is the same for prompts that differ in white space alone; `also`: what else belongs to the prompt.

    >>> same_prompt("1 + 1?\\n") == same_prompt([{"role": "user", "content": "1 +  1?"}])
    True
    """
    messages = [{"role": "user", "content": given}] if isinstance(given, str) else given
    plain = [[message["role"], " ".join(message["content"].split())] for message in messages]
    return hashlib.sha256(json.dumps([plain, *also], sort_keys=True).encode()).hexdigest()


def fill(template: str, values: Mapping[str, Any]) -> str:
    r"""The template with each {name} of `values` replaced, in one go: braces in values, unknown names and the braces of
    a command stay. What is no text is put as JSON, None as nothing.

    >>> fill(r"{prompt} Give \boxed{answer} in {unit}{}.", {"prompt": "Is {unit} {x}?", "answer": 4, "unit": ["km"]})
    'Is {unit} {x}? Give \\boxed{answer} in ["km"]{}.'
    """

    def put(place: re.Match[str]) -> str:
        if place[1] or place[2] not in values:
            return place[0]
        value = values[place[2]]
        return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)

    return _PLACE.sub(put, template)


def places(template: str, columns: Iterable[str], table: str) -> tuple[str, ...]:
    """The columns that the template names, {prompt} among them if it is named.

    Raises InputError when it names none, so that all prompts would be the same text, and for a name that is almost one.
    """
    known = dict.fromkeys(["prompt", *columns])
    words = [place[2] for place in _PLACE.finditer(template) if not place[1]]
    for word in words:
        close = nearest(word, known)
        if word not in known and re.fullmatch(r"[\w-]+", word) and close:
            raise InputError(f"task.instruction has the place {{{word}}}, which is no column of {table}.{close}")
    found = tuple(dict.fromkeys(word for word in words if word in known))
    if not found:
        expected = ", ".join(f"{{{name}}}" for name in known)
        raise InputError(f"task.instruction has no place for the prompt; expected {{prompt}} in it (of {expected}).")
    return found


def complete(given: str | Chat, columns: Mapping[str, Any], instruction: str | None, system: str | None) -> str | Chat:
    """What the policy is given. ValueError with a sentence where the prompt leaves no room for one of the two."""
    if instruction is not None:
        if not isinstance(given, str):
            raise ValueError("task.instruction goes around a text, but the prompt is chat messages.")
        given = fill(instruction, {**columns, "prompt": given})
    if system is None:
        return given
    messages = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if messages[0]["role"] == "system":
        raise ValueError("task.system is set, but the prompt has a system message already; expected one of the two.")
    return [{"role": "system", "content": system}, *messages]


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
