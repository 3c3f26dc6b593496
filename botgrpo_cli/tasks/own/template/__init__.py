"""The files that `botgrpo task new` writes: functions, recipe and prompts that run as they stand."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from random import Random

from botgrpo_cli.errors import InputError, RunError

PROMPTS = 240
SUFFIXES = (".py", ".yaml", ".jsonl")


def write_task(path: Path) -> list[Path]:
    """Writes PATH.py and, beside it, its recipe and its prompts; returns all three.

    Raises:
        InputError: `path` is no name of a Python file, or one of the three is there already.
        RunError: they could not be written.
    """
    if path.suffix != ".py" or not path.stem.isidentifier():
        raise InputError(f"Found {str(path)!r}; expected the name of a Python file, for example sums.py.")
    targets = [path.with_suffix(suffix) for suffix in SUFFIXES]
    if there := [str(target) for target in targets if target.exists()]:
        raise InputError(f"{' and '.join(there)} exist{'s' * (len(there) == 1)} already and was left as it is.")
    folder = files(__package__)
    texts = [
        (folder / "task.py").read_text(encoding="utf-8").replace("{name}", path.stem),
        (folder / "recipe.yaml").read_text(encoding="utf-8").format(name=path.stem),
        "".join(json.dumps(row) + "\n" for row in problems(PROMPTS)),
    ]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for target, text in zip(targets, texts, strict=True):
            target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RunError(f"{path} could not be written: {error.strerror or error}.") from error
    return targets


def problems(count: int, seed: int = 0) -> list[dict[str, str | int]]:
    """Different chains of 8 to 10 operations, each with its last result; all values lie in 0 to 999."""
    random, found = Random(seed), {}
    while len(found) < count:
        value = random.randint(1, 99)
        lines = [f"Start with {value}. Then do, in order:"]
        for number in range(1, random.randint(9, 11)):
            results = {"+": value + (term := random.randint(2, 9)), "-": value - term}
            results["*"] = value * (factor := random.randint(2, 3))
            operator = random.choice([each for each, result in results.items() if 0 <= result <= 999])
            lines.append(f"{number}: {operator} {factor if operator == '*' else term}")
            value = results[operator]
        found["\n".join([*lines, "What is the last result?"])] = value
    return [{"prompt": prompt, "answer": answer} for prompt, answer in found.items()]
