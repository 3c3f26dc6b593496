"""Ragged batches of rollouts for tests of advantages, with what each needs: rewards, mask, groups, steps, outcomes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from hypothesis import strategies as st

from botgrpo_cli.methods.registry import Method

NAN = float("nan")
# Quarters are exact in float32, so that identities are not blurred by the input's own rounding.
QUARTERS = st.integers(-12, 12).map(lambda n: n / 4)


@dataclass(frozen=True)
class Rollout:
    outcome: float
    local: tuple[float, ...]  # one a token
    steps: tuple[int, ...]  # one a token, from left to right
    group: int

    @property
    def rewards(self) -> list[float]:
        return [self.outcome + value for value in self.local]

    def step_values(self, values) -> list[tuple[float, int]]:
        """(mean value, index of the last token) of each step, in order."""
        numbers = sorted(set(self.steps))
        places = [[t for t, s in enumerate(self.steps) if s == number] for number in numbers]
        return [(sum(values[t] for t in place) / len(place), place[-1]) for place in places]


def advantages(
    method: Method, rollouts: list[Rollout], *, width: int = 0, left: int = 0, eps: float | None = None
) -> list[list[float]]:
    """The method's advantages of each rollout's tokens; `width` and `left` add padding, which holds NaN."""
    width = max([width, 1, *(len(r.local) + left for r in rollouts)])
    shape = (len(rollouts), width)
    rewards, mask, steps = torch.full(shape, NAN, dtype=torch.float64), torch.zeros(shape), torch.full(shape, 99)
    for k, rollout in enumerate(rollouts):
        inside = slice(left, left + len(rollout.local))
        rewards[k, inside] = torch.tensor(rollout.rewards, dtype=torch.float64)
        mask[k, inside] = 1
        steps[k, inside] = torch.tensor(rollout.steps, dtype=torch.int64)
    if eps is not None:
        method = replace(method, options={**method.options, "eps": eps})
    found = method.compute(
        rewards,
        mask,
        torch.tensor([r.group for r in rollouts], dtype=torch.int64),
        steps=steps,
        outcome=torch.tensor([r.outcome for r in rollouts], dtype=torch.float64),
    )
    assert found.dtype == torch.float32
    assert found.shape == shape
    assert (found[mask == 0] == 0).all()
    return [row[m.bool()].tolist() for row, m in zip(found, mask, strict=True)]


@st.composite
def rollouts(draw, *, min_length=0, outcome=QUARTERS, local=QUARTERS, groups=(0, 1), min_size=1):
    batch = []
    for group in draw(st.lists(st.sampled_from(groups), min_size=min_size, max_size=8)):
        length = draw(st.integers(min_length, 7))
        steps = sorted(draw(st.lists(st.integers(0, 3), min_size=length, max_size=length)))
        values = draw(st.lists(local, min_size=length, max_size=length))
        batch.append(Rollout(draw(outcome), tuple(values), tuple(steps), group))
    return batch
