"""Where a judge is found: the recipe's `judge:` section, completed from the environment. Keys come from there alone."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

from botgrpo_cli.errors import InputError
from botgrpo_cli.judges.simulate import SIMULATED
from botgrpo_cli.recipe.schema import JudgeConfig

URL_VARIABLE = "BOTGRPO_JUDGE_URL"
MODEL_VARIABLE = "BOTGRPO_JUDGE_MODEL"
KEY_VARIABLE = "BOTGRPO_JUDGE_KEY"
FALLBACK_KEY = "OPENAI_API_KEY"  # read only when KEY_VARIABLE is the one that is asked for, and not set
ONLINE = ("openai", "bedrock")


@dataclass(frozen=True)
class Settings:
    """A judge that can be called. The key is in no repr."""

    kind: str
    url: str | None
    model: str
    key: str | None = field(default=None, repr=False)
    key_from: str | None = None  # name of the variable


def resolve(config: JudgeConfig, environment: Mapping[str, str] = os.environ) -> Settings:
    """Raises InputError with every problem of `problems`."""
    if found := problems(config, environment):
        raise InputError("\n".join(f"judge.{key}: {text}" for key, text in found))
    variable = _key_variable(config, environment)
    return Settings(
        kind=config.kind,
        url=_url(config, environment),
        model=config.model or environment[MODEL_VARIABLE],
        key=environment[variable].strip() if variable and config.kind == "openai" else None,
        key_from=variable if config.kind == "openai" else None,
    )


def problems(config: JudgeConfig, environment: Mapping[str, str] = os.environ) -> list[tuple[str, str]]:
    """(key below `judge`, sentence) of everything that keeps this judge from being called; looks at no network."""
    found = []
    if not re.fullmatch(r"[A-Z_][A-Z0-9_]*", config.key_variable):
        # Not shown: it may be the key itself.
        text = (
            f"Found something else than the name of a variable; expected capitals, digits and _, as in {KEY_VARIABLE}."
        )
        found.append(("key_variable", text))
    if (config.prices.input is None) != (config.prices.output is None):
        missing = "input" if config.prices.input is None else "output"
        found.append((f"prices.{missing}", "Found nothing, and the other price is given; expected both or neither."))
    if config.kind not in ONLINE:
        return found
    for name in SIMULATED:
        if getattr(config, name):
            text = f"Found {getattr(config, name)} with kind {config.kind}; only heuristic and exact simulate errors."
            found.append((name, f"{text} Expected 0."))
    url = _url(config, environment)
    if config.kind == "openai" and not url:
        text = f"Found nothing, and the variable {URL_VARIABLE} is not set; expected an address as in"
        found.append(("url", f"{text} http://localhost:8000/v1, or judge.kind heuristic."))
    elif url and (wrong := _wrong_url(url)):
        place = "" if config.url else f" (from {URL_VARIABLE})"
        found.append(("url", f"{wrong}{place}; expected http:// or https://, a host and a path, mostly /v1."))
    if not (config.model or environment.get(MODEL_VARIABLE)):
        text = f"Found nothing, and the variable {MODEL_VARIABLE} is not set; expected the model's name on the server."
        found.append(("model", text))
    named = config.key_variable != KEY_VARIABLE and not any(key == "key_variable" for key, _ in found)
    if config.kind == "openai" and named and not environment.get(config.key_variable):
        found.append(("key_variable", f"Found {config.key_variable}, and that variable is not set."))
    variable = _key_variable(config, environment)
    if config.kind == "openai" and variable and not re.fullmatch(r"[!-~]+", environment[variable].strip()):
        text = f"The key in {variable} has spaces, line ends or other characters in it that no key has."
        found.append(("key_variable", text))
    return found


def _key_variable(config: JudgeConfig, environment: Mapping[str, str]) -> str | None:
    """Name of the variable that holds the key; None when there is no key."""
    names = [config.key_variable, *([FALLBACK_KEY] if config.key_variable == KEY_VARIABLE else [])]
    return next((name for name in names if environment.get(name)), None)


def _url(config: JudgeConfig, environment: Mapping[str, str]) -> str | None:
    """Bedrock has addresses of its own, which a variable for another kind of server must not replace."""
    url = config.url or (environment.get(URL_VARIABLE) if config.kind == "openai" else None)
    return url.strip().rstrip("/") if url else None


def _wrong_url(url: str) -> str | None:
    """What is wrong with `url`, which is shown only where it can hold no key."""
    try:
        parts = urlsplit(url)
        hidden = parts.username is not None or parts.password is not None or parts.query or parts.fragment
        port_is_fine = parts.port is None or parts.port > 0
    except ValueError:
        return "Found an address that cannot be read"
    if hidden:
        return "Found an address with a name, a password, a query or a fragment in it, where a key could stand"
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_fine:
        return f"Found '{url}'"
    if parts.path.endswith(("/chat/completions", "/completions", "/models")):
        return f"Found '{url}', the address of one call"
    return None


def host_of(url: str) -> str:
    """Host and port of `url`, for messages and the manifest."""
    return urlsplit(url).netloc.rpartition("@")[2]


class Secrets:
    """Keys that must not be written anywhere, also as a server echoes them: quoted for URLs, in base64, in JSON."""

    def __init__(self, values: Iterable[str | None]) -> None:
        forms = set()
        for value in values:
            if value and len(value) >= 8:  # shorter ones are placeholders, such as EMPTY
                data = value.encode()
                forms |= {value, quote(value, safe=""), json.dumps(value)[1:-1]}
                forms |= {base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()}
        self._forms = sorted(forms, key=len, reverse=True)

    def clean(self, text: str) -> str:
        for form in self._forms:
            text = text.replace(form, "[key]")
        return text
