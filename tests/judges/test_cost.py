"""Counters: since the last look and over the whole life; what is not known is None."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from botgrpo_cli.judges.cost import Tokens, quantile
from botgrpo_cli.recipe.schema import PriceConfig
from tests.judges.asks import GOOD_TEXT, ask
from tests.judges.server import chat, error


def test_counts_of_a_step_start_again_and_those_of_the_life_go_on(judge_for, server):
    judge = judge_for(tries=1, prices={"input": 2.0, "output": 10.0})
    server.script += [chat(GOOD_TEXT), chat("no"), chat("no"), chat("", finish="content_filter"), error(503)]
    outcomes = [judge.ask(ask(name)).outcome for name in "abcd"]
    assert outcomes == ["ok", "malformed", "refused", "transport_failed"]
    counted = judge.counters()
    assert counted.pop("seconds_p50") > 0
    assert counted.pop("seconds_p95") > 0
    answered = 4
    assert counted == {
        "asks": 4,
        "calls": 5,
        "cache_hits": 0,
        **dict.fromkeys(outcomes, 1),
        "prompt_tokens": 10 * answered,
        "completion_tokens": 5 * answered,
        "cost": pytest.approx((10 * 2 + 5 * 10) * answered / 1e6),
    }
    nothing = judge.counters()
    assert (nothing["asks"], nothing["calls"], nothing["prompt_tokens"], nothing["cost"]) == (0, 0, 0, 0)
    assert nothing["seconds_p50"] is None
    judge.ask(ask("e"))
    total = judge.describe()["so_far"]
    assert (total["asks"], total["calls"], total["prompt_tokens"]) == (5, 6, 50)


def test_tokens_that_a_server_does_not_tell_are_unknown_and_so_is_the_cost(judge_for, server):
    judge = judge_for(prices={"input": 2.0, "output": 10.0})
    server.script += [chat(GOOD_TEXT), chat(GOOD_TEXT, usage=False)]
    assert judge.ask(ask("a")).prompt_tokens == 10
    assert judge.ask(ask("b")).prompt_tokens is None
    counted = judge.counters()
    assert (counted["prompt_tokens"], counted["completion_tokens"], counted["cost"]) == (None, None, None)


def test_without_prices_the_cost_is_unknown(judge_for, server):
    judge = judge_for()
    server.script.append(chat(GOOD_TEXT))
    judge.ask(ask())
    counted = judge.counters()
    assert (counted["prompt_tokens"], counted["cost"]) == (10, None)


def test_prices_are_per_million_tokens():
    tokens = Tokens()
    tokens.add(1_000_000, 500_000)
    assert tokens.cost(PriceConfig(input=3.0, output=8.0)) == pytest.approx(7.0)
    assert tokens.cost(PriceConfig(input=3.0)) is None


@given(st.lists(st.floats(0, 100), min_size=1), st.floats(0.01, 1))
def test_a_quantile_is_a_value_with_enough_below_it(values, q):
    found = quantile(values, q)
    assert found in values
    assert sum(value <= found for value in values) >= q * len(values) - 1e-6
    assert sum(value < found for value in values) < q * len(values) + 1e-6
