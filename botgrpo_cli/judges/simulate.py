"""Errors of the offline judges, for studies of how stable a method is under them. Everything made so is `simulated`.

Each error is drawn from the seed and what is judged, so the same sample always gets the same verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from random import Random

from botgrpo_cli.judges.blames import MAX_LINES, TOP, LineBlame


def _written(code: str) -> list[int]:
    """The lines that are not blank."""
    return [number for number, line in enumerate(code.split("\n")) if line.strip()]


@dataclass(frozen=True)
class Errors:
    """`noise`: standard deviation of what is added to a score. `attribution_error`: share of the blamed lines that are
    moved to another line. `spurious_lines`: probability that a line which the screenshot judge could still name, of its
    three, is named for nothing. `flip`: share of pairwise rounds whose choice is turned round."""

    seed: int = 0
    noise: float = 0.0
    attribution_error: float = 0.0
    spurious_lines: float = 0.0
    flip: float = 0.0

    def score(self, value: float, *key: str) -> float:
        """`value` with noise, kept in [0, 1]."""
        if self.noise == 0.0:
            return value
        return min(1.0, max(0.0, value + self._random("score", *key).gauss(0.0, self.noise)))

    def lines(self, blames: Sequence[LineBlame], code: str, *key: str) -> tuple[LineBlame, ...]:
        """The same blames, some of them on another line that is not blank."""
        if self.attribution_error == 0.0:
            return tuple(blames)
        written = _written(code)
        moved = []
        for index, blame in enumerate(blames):
            random = self._random("line", str(index), *key)
            others = [line for line in written if line != blame.line]
            if others and random.random() < self.attribution_error:
                blame = LineBlame(random.choice(others), blame.impact, blame.why)
            moved.append(blame)
        return tuple(moved)

    def with_spurious(self, blames: Sequence[LineBlame], code: str, *key: str) -> tuple[LineBlame, ...]:
        """The same blames, and others for nothing: lines that are not blank, each impact from 1 to TOP equally likely.

        Every draw is made whatever is blamed already, so that what is named for nothing does not hang on it.
        """
        if self.spurious_lines == 0.0:
            return tuple(blames)
        written = _written(code)
        found = list(blames)
        for slot in range(MAX_LINES if written else 0):
            random = self._random("spurious", str(slot), *key)
            named, line, impact = random.random() < self.spurious_lines, random.choice(written), random.randint(1, TOP)
            if named and len(found) < MAX_LINES and line not in {blame.line for blame in found}:
                found.append(LineBlame(line, impact / TOP, "named for nothing (simulated)"))
        return tuple(found)

    def difference(self, value: float, *key: str) -> float:
        """A difference of two scores with the noise of both."""
        return value + self._random("pair", *key).gauss(0.0, self.noise * 2**0.5) if self.noise else value

    def flips(self, *key: str) -> bool:
        return self.flip > 0.0 and self._random("flip", *key).random() < self.flip

    def named(self) -> list[str]:
        """What is simulated, in words for a manifest; empty when nothing is.

        >>> Errors(noise=0.2).named()
        ['judge.noise 0.2']
        """
        return [f"judge.{name} {getattr(self, name):g}" for name in SIMULATED if getattr(self, name)]

    def _random(self, *key: str) -> Random:
        return Random("\0".join((str(self.seed), *key)))


SIMULATED = tuple(field.name for field in fields(Errors) if field.name != "seed")  # keys of `judge:` too
EXACT = Errors()
