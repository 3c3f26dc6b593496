from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from botgrpo_cli.methods.advantages import bag_of_tokens, group_relative, group_statistics

EPS = 1e-6
NAN = float("nan")
CREDITS = ["immediate", "to-go"]
WEIGHTS = ["inverse-length", "uniform"]
SETTINGS = settings(max_examples=60, deadline=None)


@dataclass
class Batch:
    """Ragged rollouts, and the padded tensors made of them (padding holds NaN)."""

    rollouts: list[list[float]]
    group: list[int]

    def tensors(self, width: int = 0, left: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        width = max([width, *(len(r) + left for r in self.rollouts)])
        rewards = torch.full((len(self.rollouts), width), NAN)
        mask = torch.zeros(len(self.rollouts), width, dtype=torch.int64)
        for k, rollout in enumerate(self.rollouts):
            rewards[k, left : left + len(rollout)] = torch.tensor(rollout)
            mask[k, left : left + len(rollout)] = 1
        return rewards, mask, torch.tensor(self.group)


# Quarters are exact in float32, so that identities under shifts are not blurred by the input's own rounding.
REWARD = st.integers(-12, 12).map(lambda n: n / 4)


@st.composite
def batches(draw, reward=REWARD, constant=False, min_length=1):
    group = draw(st.lists(st.integers(-2, 2), min_size=1, max_size=10))
    rollouts = []
    for _ in group:
        length = draw(st.integers(min_length, 9))
        one = draw(reward)
        rollouts.append([one] * length if constant else draw(st.lists(reward, min_size=length, max_size=length)))
    return Batch(rollouts, group)


def bag_by_hand(batch: Batch, weights="inverse-length", credit="immediate") -> list[list[float]]:
    """The definition with loops and exact sums."""
    result = [[0.0] * len(r) for r in batch.rollouts]
    rows = [
        r if credit == "immediate" else [math.fsum(r[t:]) / len(r[t:]) for t in range(len(r))] for r in batch.rollouts
    ]
    for g in set(batch.group):
        members = [
            k for k, other in enumerate(batch.group) if other == g and rows[k] and all(map(math.isfinite, rows[k]))
        ]
        if len(members) < 2:
            continue
        bag = [(1 / len(rows[k]) if weights == "inverse-length" else 1.0, r) for k in members for r in rows[k]]
        total = math.fsum(w for w, _ in bag)
        mu = math.fsum(w * r for w, r in bag) / total
        sigma = math.sqrt(math.fsum(w * (r - mu) ** 2 for w, r in bag) / total)
        if sigma < 1e-9:
            continue
        for k in members:
            result[k] = [(r - mu) / (sigma + EPS) for r in rows[k]]
    return result


def unpadded(advantages: torch.Tensor, mask: torch.Tensor) -> list[list[float]]:
    assert advantages.dtype == torch.float32
    assert (advantages[mask == 0] == 0).all()
    return [row[m.bool()].tolist() for row, m in zip(advantages, mask, strict=True)]


def assert_close(found, expected, tolerance=2e-5):
    assert [len(r) for r in found] == [len(r) for r in expected]
    for a, b in zip(found, expected, strict=True):
        assert a == pytest.approx(b, abs=tolerance, rel=tolerance)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("credit", CREDITS)
@SETTINGS
@given(batch=batches(reward=st.one_of(REWARD, st.just(NAN)), min_length=0))
def test_bag_is_its_definition(weights, credit, batch):
    rewards, mask, group = batch.tensors()
    found = bag_of_tokens(rewards, mask, group, weights=weights, credit=credit)
    assert_close(unpadded(found, mask), bag_by_hand(batch, weights, credit))


@SETTINGS
@given(batch=batches(reward=st.one_of(REWARD, st.just(NAN)), min_length=0))
def test_group_relative_is_its_definition(batch):
    rewards, mask, group = batch.tensors()
    scores = Batch([[math.fsum(r) / len(r)] if r else [] for r in batch.rollouts], batch.group)
    expected = [a * len(r) for a, r in zip(bag_by_hand(scores), batch.rollouts, strict=True)]
    assert_close(unpadded(group_relative(rewards, mask, group), mask), expected)


@pytest.mark.parametrize("credit", CREDITS)
@SETTINGS
@given(batch=batches(constant=True))
def test_a_constant_rewards_make_the_bag_equal_to_the_group(credit, batch):
    tensors = batch.tensors()
    torch.testing.assert_close(bag_of_tokens(*tensors, credit=credit), group_relative(*tensors))


@pytest.mark.parametrize("credit", CREDITS)
@SETTINGS
@given(batch=batches())
def test_b_each_rollout_counts_once_and_the_bag_is_centred(credit, batch):
    rewards, mask, group = batch.tensors()
    means = bag_of_tokens(rewards, mask, group, credit=credit).double().sum(1) / mask.sum(1)
    for g in group.unique():
        assert abs(means[group == g].sum().item()) < 1e-5
    advantages = group_relative(rewards, mask, group).double()
    for g in group.unique():
        assert abs((advantages.sum(1) / mask.sum(1))[group == g].sum().item()) < 1e-5


@pytest.mark.parametrize("credit", CREDITS)
@SETTINGS
@given(batch=batches())
def test_b_uniform_weights_centre_the_plain_sum(credit, batch):
    rewards, mask, group = batch.tensors()
    sums = bag_of_tokens(rewards, mask, group, weights="uniform", credit=credit).double().sum(1)
    for g in group.unique():
        assert abs(sums[group == g].sum().item()) < 1e-4


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("credit", CREDITS)
@SETTINGS
@given(batch=batches(), scale=st.sampled_from([0.5, 2.0, 8.0]), shift=st.integers(-40, 40))
def test_c_scale_and_shift_change_nothing(weights, credit, batch, scale, shift):
    rewards, mask, group = batch.tensors()
    for function, options in ((bag_of_tokens, {"weights": weights, "credit": credit}), (group_relative, {})):
        before = function(rewards, mask, group, eps=1e-12, **options)
        after = function(rewards * scale + shift, mask, group, eps=1e-12, **options)
        torch.testing.assert_close(after, before, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("credit", CREDITS)
@SETTINGS
@given(batch=batches(), other=batches(), width=st.integers(0, 30), left=st.integers(0, 4), random=st.randoms())
def test_d_padding_row_order_and_other_groups_change_nothing(weights, credit, batch, other, width, left, random):
    options = {"weights": weights, "credit": credit}
    plain = batch.tensors()
    joined = Batch(batch.rollouts + other.rollouts, batch.group + [g + 100 for g in other.group])
    order = list(range(len(joined.group)))
    random.shuffle(order)
    shuffled = Batch([joined.rollouts[k] for k in order], [joined.group[k] for k in order])
    wide = shuffled.tensors(width, left)
    for function, kwargs in ((bag_of_tokens, options), (group_relative, {})):
        expected = unpadded(function(*plain, **kwargs), plain[1])
        found = unpadded(function(*wide, **kwargs), wide[1])
        assert_close([found[order.index(k)] for k in range(len(batch.group))], expected, tolerance=1e-6)


@SETTINGS
@given(batch=batches(), data=st.data())
def test_e_doubling_every_token_of_a_rollout_changes_nothing(batch, data):
    k = data.draw(st.integers(0, len(batch.group) - 1))
    doubled = Batch(list(batch.rollouts), batch.group)
    doubled.rollouts[k] = [r for r in batch.rollouts[k] for _ in range(2)]
    before, after = batch.tensors(), doubled.tensors()
    for function in (bag_of_tokens, group_relative):
        expected = unpadded(function(*before), before[1])
        expected[k] = [a for a in expected[k] for _ in range(2)]
        assert_close(unpadded(function(*after), after[1]), expected)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("credit", CREDITS)
@SETTINGS
@given(
    lengths=st.lists(st.integers(0, 300), min_size=1, max_size=8),
    reward=st.floats(-1e3, 1e3, width=32),
    rollout=st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=20),
)
def test_f_no_spread_or_a_lone_rollout_is_exactly_zero(weights, credit, lengths, reward, rollout):
    equal = Batch([[reward] * n for n in lengths], [3] * len(lengths))
    lone = Batch([rollout, [], [NAN]], [3, 3, 3])
    for batch in (equal, lone):
        for advantages in (
            bag_of_tokens(*batch.tensors(1), weights=weights, credit=credit, eps=0.0),
            group_relative(*batch.tensors(1), eps=0.0),
        ):
            assert (advantages == 0).all()


@SETTINGS
@given(st.lists(st.floats(-3, 3, width=32), min_size=1, max_size=12))
def test_f_equal_scores_of_unequal_rollouts_are_exactly_zero_for_the_group(row):
    same = Batch([row, row[::-1], row * 3], [0, 0, 0])
    assert (group_relative(*same.tensors(), eps=0.0) == 0).all()


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("credit", CREDITS)
@SETTINGS
@given(batch=batches(), bad=st.sampled_from([NAN, math.inf, -math.inf]), data=st.data())
def test_g_an_unscored_rollout_leaves_its_group(weights, credit, batch, bad, data):
    k = data.draw(st.integers(0, len(batch.group) - 1))
    t = data.draw(st.integers(0, len(batch.rollouts[k]) - 1))
    hurt = Batch([list(r) for r in batch.rollouts], batch.group)
    hurt.rollouts[k][t] = bad
    rest = [n for n in range(len(batch.group)) if n != k]
    without = Batch([batch.rollouts[n] for n in rest], [batch.group[n] for n in rest])
    tensors = hurt.tensors()
    for function, options in ((bag_of_tokens, {"weights": weights, "credit": credit}), (group_relative, {})):
        found = unpadded(function(*tensors, **options), tensors[1])
        assert found[k] == [0.0] * len(found[k])
        if rest:
            expected = unpadded(function(*without.tensors(), **options), without.tensors()[1])
            assert_close([found[n] for n in rest], expected, tolerance=1e-6)
    assert group_statistics(*tensors)["unscored"] == 1


@SETTINGS
@given(batch=batches(min_length=0))
def test_a_zero_mask_or_an_empty_batch_gives_zeros(batch):
    rewards, mask, group = batch.tensors(1)
    for function in (bag_of_tokens, group_relative):
        assert (function(rewards, mask * 0, group) == 0).all()
        assert function(rewards[:0], mask[:0], group[:0]).shape == (0, rewards.shape[1])
        assert function(rewards[:, :0], mask[:, :0], group).shape == (len(group), 0)
    assert group_statistics(rewards[:0], mask[:0], group[:0])["groups"] == 0


def test_two_passes_keep_small_differences_on_a_large_mean():
    rewards = torch.tensor([[10_000.0, 10_000.5], [10_000.25, 10_000.25]])
    expected = torch.tensor([[-math.sqrt(2), math.sqrt(2)], [0.0, 0.0]])
    found = bag_of_tokens(rewards, torch.ones(2, 2), torch.zeros(2, dtype=torch.long), eps=0.0)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_the_local_signal_reaches_grpo_as_its_mean():
    rewards = torch.tensor([[1.0 + 0.5 * -1.0, 1.0], [1.0 + 0.5 * -0.5, 1.0 + 0.5 * -0.5], [0.0, 0.0]])
    advantages = group_relative(rewards, torch.ones(3, 2), torch.zeros(3, dtype=torch.long))
    torch.testing.assert_close(advantages[0], advantages[1])
    assert advantages[0, 0] > 0 > advantages[2, 0]


def test_to_go_by_hand():
    rewards, mask = torch.tensor([[8.0, 0.0, NAN], [2.0, 2.0, 2.0]]), torch.tensor([[1, 1, 0], [1, 1, 1]])
    # To go: [4, 0] and [2, 2, 2]: mu = (2 + 2) / 2 = 2; variance ((4 + 4) / 2 + 0) / 2 = 2.
    expected = torch.tensor([[math.sqrt(2), -math.sqrt(2), 0.0], [0.0, 0.0, 0.0]])
    found = bag_of_tokens(rewards, mask, torch.tensor([1, 1]), credit="to-go", eps=0.0)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_dtypes_and_boolean_masks(dtype):
    rewards, mask, group = Batch([[8.0, 0.0], [2.0]], [7, 7]).tensors()
    expected = torch.tensor([[5 / 3, -1.0], [-1 / 3, 0.0]])
    torch.testing.assert_close(bag_of_tokens(rewards.to(dtype), mask.bool(), group, eps=0.0), expected)


def test_inputs_are_left_as_they_are():
    rewards, mask, group = Batch([[8.0, 0.0], [NAN]], [7, 7]).tensors()
    rewards = rewards.double()  # the type the sums run in: must still be copied
    before = rewards.clone()
    for function in (bag_of_tokens, group_relative, group_statistics):
        function(rewards, mask, group)
        torch.testing.assert_close(rewards, before, equal_nan=True)


def test_rewards_with_gradient_are_detached():
    rewards = torch.randn(4, 3, requires_grad=True)
    for function in (bag_of_tokens, group_relative):
        assert not function(rewards, torch.ones(4, 3), torch.tensor([0, 0, 1, 1])).requires_grad


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((2, 3), (2, 2), (2,)), r"mask \(2, 2\)"),
        (((2, 3), (2, 3), (3,)), r"group \(3,\)"),
        (((6,), (6,), (6,)), r"token_rewards is \(6,\)"),
    ],
)
def test_wrong_shapes_are_named(shapes, message):
    tensors = [torch.zeros(shape, dtype=torch.long) for shape in shapes]
    for function in (bag_of_tokens, group_relative, group_statistics):
        with pytest.raises(ValueError, match=message):
            function(*tensors)


def test_wrong_words_are_named():
    tensors = torch.zeros(1, 1), torch.ones(1, 1), torch.zeros(1, dtype=torch.long)
    with pytest.raises(ValueError, match="'length'; expected 'inverse-length' or 'uniform'"):
        bag_of_tokens(*tensors, weights="length")
    with pytest.raises(ValueError, match="'later'; expected 'immediate' or 'to-go'"):
        bag_of_tokens(*tensors, credit="later")


def test_statistics_by_hand():
    batch = Batch(
        [[1.0, 0.0], [0.5], [0.0], [1.0], [NAN, 1.0], [1.0], [], [2.0, 2.0], [2.0]],
        #  equal scores   | spread    | one left         | one tokenless  | no spread
        [0, 0, 1, 1, 2, 2, 3, 4, 4],
    )
    assert group_statistics(*batch.tensors()) == {
        "zero_spread": pytest.approx(4 / 5),  # all but group 1
        "zero_spread_tokens": pytest.approx(3 / 5),  # the tokens of group 0 differ
        "unscored": 1.0,
        "empty": 1.0,
        "groups": 5.0,
    }
