"""The faults that the offline judges find in a source, each with its line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from botgrpo_cli.tasks.base import Prompt
from botgrpo_cli.tasks.react.jsx import Text
from botgrpo_cli.tasks.react.judges.heuristic_source import Component, Fault, Reading, blank
from botgrpo_cli.tasks.react.judges.heuristic_style import FAINT, INVISIBLE

FATAL = frozenset({"throws", "empty"})  # nothing is shown at all
ECHO_WORDS = 6  # words of the request in a row; quoted parts of it are asked for and don't count
_WORD = re.compile(r"[^\W_]+")
_QUOTED = re.compile(r"[\"“'‘][^\"”'’]{0,200}[\"”'’]")
_TOP_MARK = r"\b(?:full|top|max(?:imum)?|perfect|highest|10|ten)\b"
_ADDRESS = re.compile(
    r"\b(?:ignore|disregard|forget)\b.{0,20}\b(?:previous|above|prior|earlier|your|all|any)\b.{0,20}"
    r"\b(?:instructions?|rules?|prompts?|criteria)\b"
    r"|\b(?:give|award|assign|rate|score|grade)\b.{0,30}"
    rf"\b(?:this|it|me|my|(?:the|an?) (?:app|component|code|answer|page))\b.{{0,30}}{_TOP_MARK}"
    rf"|\b(?:deserves?|worth|award|give|assign)\b.{{0,20}}{_TOP_MARK}.{{0,12}}\b(?:marks?|scores?|ratings?|grades?)\b"
    r"|\b(?:dear|attention|hello|hey|(?:note|message|instructions?) (?:to|for))\b.{0,12}"
    r"\b(?:judge|grader|reviewer|evaluator|assessor)s?\b"
    r"|[\"']score[\"']\s*:\s*\d",
    re.IGNORECASE | re.DOTALL,
)
_DIRECTIVE = re.compile(r"\beslint-(?:disable|enable)|@ts-(?:ignore|nocheck|expect-error)|\bprettier-ignore\b")
_PLACEHOLDER = re.compile(r"\blorem ipsum\b|\bcoming soon\b|\bTODO\b|\byour (?:content|text|code) here\b")
_CLASS_START = re.compile(r"\bclassName\s*=\s*[\"'{`]*\Z")
_GUARD = re.compile(r"\bif\s*\([^;{}]*\)\s*\{?\s*\Z|\bcatch\b|\bcase\b[^;]*:\s*\Z|\bdefault\s*:\s*\Z|\?\s*\Z|:\s*\Z")
_EFFECT = re.compile(r"\buse(?:Layout|Insertion)?Effect\s*\(\s*(?:async\s*)?\(\s*\)\s*\Z")
_NULLS = re.compile(
    r"\b(?:const|let|var)\s+(?:(\w+)\s*=\s*(?:null|undefined)\s*[;\n]|(\w+)\s*;"
    r"|\[\s*(\w+)\s*,[^\]=]{0,60}\]\s*=\s*(?:React\.)?useState\s*\(\s*(?:null|undefined)?\s*\)"
    r"|(\w+)\s*=\s*\{\s*\}\s*[;\n])"
)


def faults(reading: Reading, prompt: Prompt, undefined: Sequence[int] = ()) -> list[Fault]:
    """Every fault, the worst first, at most one a line. `undefined`: lines where a linter found an unknown name."""
    found = [
        *(Fault(line, 9, "undefined", "a name that is defined nowhere") for line in undefined),
        *_crashes(reading),
        *_emptiness(reading),
        *_texts(reading, prompt),
        *_elements(reading),
        *_repeated_lines(reading),
    ]
    worst: dict[int, Fault] = {}
    for fault in sorted(found, key=lambda f: (-f.impact, f.line)):
        worst.setdefault(fault.line, fault)
    return list(worst.values())


def visible_code(reading: Reading, prompt: Prompt) -> str:
    """The source with everything blanked that should not count: comments, hidden elements, echoes of the request, text
    for a judge. What is asked for is looked for in the rest."""
    spans = [(element.start, element.end) for element, _ in reading.hidden]
    echoed = _echoes(prompt)
    for text in reading.source.texts:
        words = reading.code[text.start : text.end]
        if text.kind == "comment" or _ADDRESS.search(words) or (text.visible and echoed(words)):
            spans.append((text.start, text.end))
    return blank(reading.code, spans)


def echo_free(shown: str, prompt: Prompt) -> str:
    """The text of a page without the stretches that repeat the request or speak to a judge."""
    words, grams = _WORD.findall(shown), _grams(prompt)
    low = [word.casefold() for word in words]
    dropped = set()
    for at in range(len(low) - ECHO_WORDS + 1):
        if tuple(low[at : at + ECHO_WORDS]) in grams:
            dropped.update(range(at, at + ECHO_WORDS))
    rest = " ".join(word for at, word in enumerate(words) if at not in dropped)
    return _ADDRESS.sub(" ", rest)


def _grams(prompt: Prompt) -> set[tuple[str, ...]]:
    found = set()
    for part in _QUOTED.split(prompt.text):
        words = [word.casefold() for word in _WORD.findall(part)]
        found |= {tuple(words[at : at + ECHO_WORDS]) for at in range(len(words) - ECHO_WORDS + 1)}
    return found


def _echoes(prompt: Prompt):
    """A test of whether a text repeats the request."""
    grams = _grams(prompt)

    def repeats(text: str) -> bool:
        words = [word.casefold() for word in _WORD.findall(text)]
        return any(tuple(words[at : at + ECHO_WORDS]) in grams for at in range(len(words) - ECHO_WORDS + 1))

    return repeats


def _crashes(reading: Reading) -> Iterator[Fault]:
    """What throws as soon as the component is shown: it is mounted without properties."""
    component = reading.component
    if component is None or component.literal:
        return
    body = reading.masked[component.start : component.end]

    def fault(offset: int, why: str) -> Fault:
        return Fault(reading.line(component.start + offset), 10, "throws", why)

    for match in re.finditer(r"\bthrow\b", body):
        before = body[: match.start()]
        arrow = max(before.rfind("=>"), before.rfind("function"))
        at_once = arrow < 0 or _EFFECT.search(before[:arrow]) is not None
        if at_once and not _GUARD.search(before[-120:]):
            yield fault(match.start(), "it throws when it is shown")
    for name, known in sorted(_missing(component, body).items()):
        rest = body[known:]
        use = re.search(rf"(?<![\w.'\"]){re.escape(name)}\s*(?:\.(?!\.)|\[|\()", rest)
        if use and not re.search(rf"\b{re.escape(name)}\s*(?:&&|\?|!==?|===?|=[^=>])", rest):
            yield fault(known + use.start(), f"'{name}' is not there when it is shown")
    if match := re.search(r"\b(?:undefined|null)\s*\.\s*\w|\bprops\.\w+\s*(?:\.\s*\w|\[)", body):
        yield fault(match.start(), "it reads a member of something that is not there")


def _missing(component: Component, body: str) -> dict[str, int]:
    """Names that hold nothing at the first render, and from where on in `body`."""
    names = {}
    if component.parameters.lstrip().startswith("{"):
        for part in component.parameters.strip().strip("{}").split(","):
            if re.fullmatch(r"\s*\w+\s*", part):  # without a default
                names[part.strip()] = len(component.parameters) + 1
    for match in _NULLS.finditer(body):
        if match[4]:  # an empty object: its members are missing, one level down
            members = re.findall(rf"\b{match[4]}\.(\w+)\s*\.", body)
            names |= {f"{match[4]}.{member}": match.end() for member in members}
        else:
            names[next(name for name in match.groups() if name)] = match.end()
    return names


def _emptiness(reading: Reading) -> Iterator[Fault]:
    """A component that shows no element."""
    if reading.shown or "createElement" in reading.masked:
        return
    for element, why in reading.hidden:
        yield Fault(reading.line(element.start), 10, "empty", f"nothing is shown: {why}")
        return
    component = reading.component
    start, end = (component.start, component.end) if component else (0, len(reading.masked))
    last = list(re.finditer(r"\breturn\b|=>", reading.masked[start:end]))
    yield Fault(reading.line(start + last[-1].start() if last else start), 10, "empty", "it shows no element")


def _texts(reading: Reading, prompt: Prompt) -> Iterator[Fault]:
    repeats = _echoes(prompt)
    for text in reading.source.texts:
        words = reading.code[text.start : text.end]
        line = reading.line(text.start + len(words) - len(words.lstrip()))
        if _ADDRESS.search(words):
            yield Fault(line, 10, "address", "it speaks to a judge")
        elif text.kind == "comment":
            if _DIRECTIVE.search(words):
                yield Fault(line, 4, "directive", "it tries to switch a checker off")
        elif _broken_class(reading, text, words):
            yield Fault(line, 8, "garbled", "the class name is not closed")
        elif _meaningless(words):
            yield Fault(line, 6, "repeat", "the same words again and again")
        elif text.visible and repeats(words):
            yield Fault(line, 6, "echo", "it repeats the request")
        elif text.visible and _PLACEHOLDER.search(words):
            yield Fault(line, 3, "placeholder", "a placeholder")


def _broken_class(reading: Reading, text: Text, words: str) -> bool:
    """A string of a class name that swallows what follows it."""
    before = reading.code[max(0, text.start - 40) : text.start]
    return text.kind == "string" and re.search(r"[<>\n]", words) is not None and bool(_CLASS_START.search(before))


def _meaningless(words: str) -> bool:
    """Six words or more of which one is half of them.

    >>> _meaningless("flex flex flex flex flex flex p-2"), _meaningless("one two three four five six")
    (True, False)
    """
    parts = words.split()
    return len(parts) >= 6 and Counter(parts).most_common(1)[0][1] * 2 >= len(parts)


def _elements(reading: Reading) -> Iterator[Fault]:
    for element, why in reading.hidden:
        yield Fault(reading.line(element.start), 8, "hidden", f"nobody can see it: {why}")
    for element, live in reading.controls:
        if not live:
            yield Fault(reading.line(element.start), 5, "dead", "using it does nothing")
    hidden = {element.start for element, _ in reading.hidden}
    for element, look in reading.looks:
        if look.contrast is not None and INVISIBLE <= look.contrast < FAINT and element.start not in hidden:
            yield Fault(reading.line(element.start), 4, "contrast", "its text is hard to read")


def _repeated_lines(reading: Reading) -> Iterator[Fault]:
    """Four equal lines in a row, or more; lines of brackets don't count."""
    before, run = "", 1
    for number, line in enumerate(reading.code.split("\n")):
        line = line.strip()
        run = run + 1 if line == before and len(re.findall(r"\w", line)) > 3 else 1
        before = line
        if run >= 4:
            yield Fault(number, 6, "repeat", "the same line again and again")
