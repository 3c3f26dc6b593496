"""Gives the texts of a YAML tree the types of the schema, and says what was expected where they don't fit."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from botgrpo_cli.errors import nearest
from botgrpo_cli.recipe.errors import Mark, Problem
from botgrpo_cli.recipe.yaml_strict import Items, Mapping, Node, Scalar, quote

INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
NUMBER = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
MAX_DIGITS = 400  # Python refuses to read integers of more than 4300 digits; nothing here needs 20
_WORDS_FOR_TRUE = ("yes", "on", "y", "t", "1", "true")
_WORDS_FOR_FALSE = ("no", "off", "n", "f", "0", "false")


@dataclass(frozen=True)
class Leaf:
    """A typed value (or null, or a list) and where it was written."""

    value: Any
    mark: Mark


@dataclass(frozen=True)
class Section:
    """A typed mapping. Any key may be missing: layers are merged before they are complete."""

    items: dict[str, Leaf | Section]
    mark: Mark


class _Misfit(Exception):
    """The text doesn't fit the type; the argument is a hint for the reader, or empty."""


def type_section(
    node: Mapping, model: type[BaseModel], problems: list[Problem], prefix: str = "", *, also: Sequence[str] = ()
) -> Section:
    """`node` typed as a part of `model`. Keys with problems are left out and noted in `problems`. `also` are keys that
    are read elsewhere, for the message about one that is not known."""
    items: dict[str, Leaf | Section] = {}
    for name, value in node.items.items():
        key = f"{prefix}.{name}" if prefix else name
        info = model.model_fields.get(name)
        if info is None:
            problems.append(unknown_key(value.mark, key, name, [*model.model_fields, *also], model))
            continue
        typed = _type_value(value, info, key, problems)
        if typed is not None:
            items[name] = typed
    return Section(items, node.mark)


def unknown_key(mark: Mark, key: str, name: str, valid: list[str], model: type[BaseModel]) -> Problem:
    """The problem of a key that is in no schema, with the nearest one that is."""
    hint = nearest(name, valid)
    if not hint:
        # `steps: 5` at the top, or `lr` in the wrong section: look for the word in the sections below.
        below = [path for path in dotted_keys(model) if path.rpartition(".")[2] == name]
        below.sort(key=lambda path: bool(_sections(field_at(model, path.split(".")))))  # values before sections
        hint = f" Did you mean '{below[0]}'?" if below else ""
    return Problem(mark, key, f"Found an unknown key; expected {either(valid)}.{hint}")


def dotted_keys(model: type[BaseModel], prefix: str = "") -> list[str]:
    """Every key below `model` as a dotted path, sections included, in the order of the schema."""
    keys = []
    for name, info in model.model_fields.items():
        key = f"{prefix}.{name}" if prefix else name
        keys.append(key)
        for section in _sections(info):
            keys += dotted_keys(section, key)
    return keys


def field_at(model: type[BaseModel], path: list[str]) -> FieldInfo | None:
    """The field at a dotted path, or None when there is none."""
    info = model.model_fields.get(path[0])
    for name in path[1:]:
        sections = _sections(info) if info is not None else []
        info = sections[0].model_fields.get(name) if sections else None
    return info


def holds_scalars_only(info: FieldInfo) -> bool:
    """True when a field can hold neither a section nor a list."""
    holders = (list, dict)
    return not _sections(info) and not any(typing.get_origin(m) in holders for m in _members(info.annotation))


def in_free_section(model: type[BaseModel], path: list[str]) -> bool:
    """True when a dotted path leads into a section whose keys the schema does not know."""
    fields = (field_at(model, path[:end]) for end in range(1, len(path)))
    return any(_is_free(info) for info in fields if info is not None)


def expected(info: FieldInfo) -> str:
    """What a field takes, in words, for example `an integer of at least 1`."""
    words: list[str] = []
    for member in _members(info.annotation):
        metadata = info.metadata
        if typing.get_origin(member) is Annotated:
            member, *extra = typing.get_args(member)
            metadata = [item for part in extra for item in (part.metadata if isinstance(part, FieldInfo) else [part])]
        words += _words(member, metadata)
    return either(sorted(words, key=lambda word: word == "null"))  # null reads best at the end


def _type_value(node: Node, info: FieldInfo, key: str, problems: list[Problem]) -> Leaf | Section | None:
    if isinstance(node, Mapping) and (sections := _sections(info)):
        return type_section(node, sections[0], problems, key)
    if isinstance(node, Mapping) and _is_free(info):
        return _free(node)
    members = [typing.get_args(m)[0] if typing.get_origin(m) is Annotated else m for m in _members(info.annotation)]
    try:
        value = _value(node, members)
        _adapter(info)(value)
    except _Misfit as misfit:
        problems.append(_wrong(node, info, key, str(misfit)))
    except ValidationError:
        problems.append(_wrong(node, info, key, ""))
    else:
        return Leaf(value, node.mark)
    return None


def _is_free(info: FieldInfo) -> bool:
    return any(typing.get_origin(member) is dict for member in _members(info.annotation))


def _free(node: Mapping) -> Section:
    """A section that another program reads: keys as they stand, values typed by their look as in YAML 1.2."""
    items = {
        key: _free(value) if isinstance(value, Mapping) else Leaf(_look(value), value.mark)
        for key, value in node.items.items()
    }
    return Section(items, node.mark)


def _look(node: Node) -> Any:
    if isinstance(node, Items):
        return [_look(item) for item in node.items]
    if isinstance(node, Mapping):
        return {key: _look(value) for key, value in node.items.items()}
    text = node.text
    if not node.plain or len(text) > MAX_DIGITS:
        return text
    if node.is_null:
        return None
    if text in ("true", "false"):
        return text == "true"
    return int(text) if INTEGER.fullmatch(text) else float(text) if NUMBER.fullmatch(text) else text


def _value(node: Node, members: list[Any]) -> Any:
    """The Python value of a scalar or a list. Raises _Misfit."""
    if isinstance(node, Mapping):
        raise _Misfit
    if isinstance(node, Items):
        lists = [member for member in members if typing.get_origin(member) is list]
        if not lists:
            raise _Misfit
        return [_value(item, list(typing.get_args(lists[0]))) for item in node.items]
    if node.is_null:
        if type(None) in members:
            return None
        raise _Misfit(" Quote it to mean the word." if node.text and str in members else "")
    hint = ""
    for member in members:
        try:
            return _scalar(node, member)
        except _Misfit as misfit:
            hint = hint or str(misfit)
    raise _Misfit(hint)


def _scalar(node: Scalar, member: Any) -> Any:
    text = node.text
    if member is str:
        return text
    if typing.get_origin(member) is Literal:
        words = [str(word) for word in typing.get_args(member)]
        if text in words:
            return text
        raise _Misfit(nearest(text, words) or nearest(text.lower(), words))
    if member in (bool, int, float) and not node.plain:
        raise _Misfit(" Write it without quotes.")
    if member is bool:
        return _boolean(text)
    if member in (int, float):
        return _number(text, member)
    raise _Misfit


def _boolean(text: str) -> bool:
    if text in ("true", "false"):
        return text == "true"
    lower = text.lower()
    word = "true" if lower in _WORDS_FOR_TRUE else "false" if lower in _WORDS_FOR_FALSE else ""
    raise _Misfit(f" Did you mean '{word}'?" if word else "")


def _number(text: str, kind: type) -> int | float:
    if len(text) > MAX_DIGITS:
        raise _Misfit
    if (INTEGER if kind is int else NUMBER).fullmatch(text):
        return kind(text)
    if kind is int and NUMBER.fullmatch(text) and abs(number := float(text)) < 1e15 and number == int(number):
        raise _Misfit(f" Write {int(number)}.")
    if NUMBER.fullmatch(text.replace("_", "")):
        raise _Misfit(f" Write {text.replace('_', '')}.")
    if re.fullmatch(r"[-+]?0[0-9box][0-9a-fA-F.]*", text):
        raise _Misfit(" Write it in decimal digits, without a leading zero.")
    if re.fullmatch(r"[-+]?\d+(:\d+)+(\.\d*)?", text):
        raise _Misfit(" Write it in decimal digits, without colons.")
    if re.fullmatch(r"[-+]?[0-9]+,[0-9]+", text):
        raise _Misfit(" The decimal mark is a point.")
    raise _Misfit


def _wrong(node: Node, info: FieldInfo, key: str, hint: str) -> Problem:
    if isinstance(node, Mapping):
        found = "keys below it"
    elif isinstance(node, Items):
        found = "a list"
    elif node.is_null:
        found = f"{quote(node.text)} (null)" if node.text else "nothing"
    else:
        found = quote(node.text) if node.plain else f"the quoted text {quote(node.text)}"
    if not hint and not isinstance(node, Mapping) and _sections(info) and type(None) not in _members(info.annotation):
        hint = " Leave the line out to take the defaults."
    return Problem(node.mark, key, f"Found {found}; expected {expected(info)}.{hint}")


def _adapter(info: FieldInfo) -> Any:
    annotation = info.annotation
    bounds = tuple(info.metadata)
    return _adapter_of(annotation, bounds).validate_python


@cache
def _adapter_of(annotation: Any, bounds: tuple[Any, ...]) -> TypeAdapter[Any]:
    whole = Annotated[(annotation, *bounds)] if bounds else annotation
    if any(isinstance(member, type) and issubclass(member, BaseModel) for member in _members(annotation)):
        return TypeAdapter(whole)  # a model brings its own config
    return TypeAdapter(whole, config=ConfigDict(strict=True, allow_inf_nan=False))


def _members(annotation: Any) -> list[Any]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return list(typing.get_args(annotation))
    return [annotation]


def _sections(info: FieldInfo) -> list[type[BaseModel]]:
    return [m for m in _members(info.annotation) if isinstance(m, type) and issubclass(m, BaseModel)]


def _words(member: Any, metadata: list[Any]) -> list[str]:
    if typing.get_origin(member) is Literal:
        return [str(word) for word in typing.get_args(member)]
    if typing.get_origin(member) is list:
        item = typing.get_args(member)[0]
        words = ", ".join(map(str, typing.get_args(item))) if typing.get_origin(item) is Literal else None
        return [f"a list of {words or ('words' if item is str else 'values')}"]
    if typing.get_origin(member) is dict or (isinstance(member, type) and issubclass(member, BaseModel)):
        return ["a section"]
    name = {bool: "true or false", str: "text", type(None): "null", int: "an integer", float: "a number"}[member]
    return [name + _bounds(metadata)]


def _bounds(metadata: list[Any]) -> str:
    bounds = {type(item).__name__: getattr(item, type(item).__name__.lower(), None) for item in metadata}
    if "Ge" in bounds and "Le" in bounds:
        return f" from {_short(bounds['Ge'])} to {_short(bounds['Le'])}"
    words = {"Ge": "of at least", "Gt": "above", "Le": "at most", "Lt": "below"}
    parts = [f"{word} {_short(bounds[kind])}" for kind, word in words.items() if kind in bounds]
    return " " + " and ".join(parts) if parts else ""


def _short(number: Any) -> str:
    return f"{number:g}"


def either(words: list[str]) -> str:
    """`a, b or c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
