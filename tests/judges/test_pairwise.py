"""Four rounds in the order A-B-B-A: votes mapped back, ties, failures, biases that cancel, and their rates."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from botgrpo_cli.judges.pairwise import (
    ORDERS,
    App,
    Choice,
    ModelPairJudge,
    PairResult,
    counted,
    judge_pair,
    share_of,
    summarise,
)
from botgrpo_cli.judges.simulate import Errors
from botgrpo_cli.tasks.react.judges.heuristic_pair import HeuristicPairJudge
from botgrpo_cli.tasks.react.render import Probe, Rendered
from tests.judges.apps import GOOD, HACKS, HI, PROMPT
from tests.judges.scripted import scripted, text_of

GOOD_PAGE = Rendered(
    "drawn",
    screenshot=b"good",
    probe=Probe(text="Garden Count: 0 Plus Reset", controls=2, live_controls=2, filled=0.03, contrast=1.0, aligned=1.0),
)
POOR_PAGE = Rendered("drawn", screenshot=b"poor", probe=Probe(text="hi", filled=0.001, contrast=1.0, aligned=1.0))
A, B = App(GOOD, GOOD_PAGE), App(HI, POOR_PAGE)


def rounds(*picks):
    return tuple(
        counted(order, Choice(pick, "ok" if pick else "malformed")) for order, pick in zip(ORDERS, picks, strict=True)
    )


def by_content(better: str):
    """A judge who finds the app that holds `better` the better one, wherever it stands."""
    return lambda prompt: {"why": "", "better": "first" if better in first_part(prompt) else "second"}


def first_part(prompt) -> str:
    return text_of(prompt).split("The second component:")[0]


def test_a_judge_that_knows_is_followed_wherever_the_app_stands():
    judge, transport = scripted(by_content("Garden</h1>"))
    pair = ModelPairJudge(judge, shown="sources", prompt="pairwise-sources")
    assert judge_pair(pair, PROMPT, A, B).a_share == 1.0
    assert judge_pair(pair, PROMPT, B, A).a_share == 0.0
    assert len(transport.sent) == 8
    assert judge_pair(pair, PROMPT, A, B).prompt == PROMPT.id


@pytest.mark.parametrize("always", ["first", "second", "tie"])
def test_a_judge_that_looks_at_the_position_alone_gives_one_half(always):
    judge, _ = scripted(lambda prompt: {"why": "", "better": always})
    result = judge_pair(ModelPairJudge(judge, shown="sources", prompt="pairwise-sources"), PROMPT, A, B)
    assert result.a_share == 0.5
    rates = summarise([result])
    assert (rates.tie, rates.invalid) == (1.0, 0)
    assert rates.first_position_rate == {"first": 1.0, "second": 0.0, "tie": None}[always]
    assert rates.flip_rate == {"first": 1.0, "second": 1.0, "tie": None}[always]


def test_the_orders_are_a_b_b_a_and_the_rounds_are_different_calls():
    assert ORDERS == ("AB", "BA", "BA", "AB")
    judge, transport = scripted(lambda prompt: {"why": "", "better": "first"})
    judge_pair(ModelPairJudge(judge, shown="sources", prompt="pairwise-sources"), PROMPT, A, B)
    assert ["hi" in first_part(sent) for sent in transport.sent].count(True) == 2


def test_pictures_are_compared_without_sources():
    judge, transport = scripted(lambda prompt: {"why": "", "better": "first"})
    judge_pair(ModelPairJudge(judge, shown="screenshots", prompt="pairwise-screenshots", looks=True), PROMPT, A, B)
    assert all(text_of(sent).count("[image]") == 2 and "useState" not in text_of(sent) for sent in transport.sent)
    shown = [tuple(part.data for part in sent.parts if not isinstance(part, str)) for sent in transport.sent]
    assert sorted(shown) == sorted([(b"good", b"poor"), (b"poor", b"good")] * 2)


@pytest.mark.parametrize(
    ("picks", "share"),
    [
        (("first", "second", "second", "first"), 1.0),  # A each time
        (("second", "first", "first", "second"), 0.0),
        (("first", "second", "second", "second"), 1.0),  # three to one
        (("first", "first", "second", "second"), 0.5),  # two to two
        (("first", "tie", "tie", "tie"), 1.0),  # a tie is no vote
        (("tie", "tie", "tie", "tie"), 0.5),
        (("first", None, None, "tie"), 1.0),
        (("tie", None, None, "tie"), 0.5),
        (("first", None, None, None), None),  # fewer than two valid rounds
        ((None, None, None, None), None),
    ],
)
def test_votes(picks, share):
    assert share_of(rounds(*picks)) == share


def test_failed_rounds_leave_the_pair_invalid_and_counted():
    judge, _ = scripted(lambda prompt: {"why": "", "better": "neither"})
    result = judge_pair(ModelPairJudge(judge, shown="sources", prompt="pairwise-sources"), PROMPT, A, B)
    assert result.a_share is None
    rates = summarise([result])
    assert (rates.n, rates.invalid, rates.rate, rates.win) == (0, 1, None, None)
    assert rates.outcomes["malformed"] == 4


def test_both_directions_add_up_to_one():
    """Over many patterns of picks; swapping the apps swaps who stands first in each round."""
    turned = {"first": "second", "second": "first", "tie": "tie", None: None}
    results, swapped = [], []
    for number, three in enumerate(itertools.product(("first", "second", "tie", None), repeat=3)):
        picks = (*three, "first")
        one = rounds(*picks)
        results.append(PairResult(str(number), share_of(one), one))
        other = rounds(*(turned[pick] for pick in picks))
        swapped.append(PairResult(str(number), share_of(other), other))
    forth, back = summarise(results), summarise(swapped)
    assert forth.rate.mean + back.rate.mean == pytest.approx(1.0)
    assert (forth.win, forth.tie, forth.loss) == (back.loss, back.tie, back.win)
    assert forth.n + forth.invalid == len(results)


def test_the_interval_is_over_prompts():
    """Two answers to one prompt are one cluster: three clusters of equal pairs."""
    pairs = [PairResult(prompt, share, ()) for prompt, share in (("a", 1.0), ("a", 1.0), ("b", 0.0), ("c", 0.5))]
    rates = summarise(pairs)
    assert rates.rate.mean == pytest.approx(0.5)
    assert (rates.rate.low, rates.rate.high) == (0.0, 1.0)
    assert (rates.win, rates.tie, rates.loss) == (0.5, 0.25, 0.25)


def test_an_app_with_nothing_to_show_loses_without_a_call():
    judge, transport = scripted(lambda prompt: {"why": "", "better": "first"})
    looking = ModelPairJudge(judge, shown="screenshots", prompt="pairwise-screenshots", looks=True)
    blank = App(GOOD, Rendered("blank", screenshot=b"white"))
    assert judge_pair(looking, PROMPT, A, blank).a_share == 1.0
    assert judge_pair(looking, PROMPT, App(None), A).a_share == 0.0
    assert judge_pair(looking, PROMPT, blank, App(None)).a_share == 0.5
    assert (
        judge_pair(ModelPairJudge(judge, shown="sources", prompt="pairwise-sources"), PROMPT, A, App(None)).a_share
        == 1.0
    )
    assert transport.sent == []
    assert summarise([judge_pair(looking, PROMPT, A, blank)]).forfeits == 1


def test_nothing_to_summarise_is_an_error():
    with pytest.raises(ValueError, match="no pair"):
        summarise([])


@pytest.mark.parametrize("looks", [True, False])
def test_the_offline_judge_prefers_the_better_app_and_ties_equal_ones(looks):
    judge = HeuristicPairJudge(looks=looks)
    assert judge.label == "heuristic"
    assert judge_pair(judge, PROMPT, A, B).a_share == 1.0
    assert judge_pair(judge, PROMPT, B, A).a_share == 0.0
    assert judge_pair(judge, PROMPT, A, A).a_share == 0.5


def test_the_offline_judge_prefers_an_app_to_every_trick_by_source():
    judge = HeuristicPairJudge(looks=False)
    assert all(judge_pair(judge, PROMPT, A, App(code)).a_share == 1.0 for code, _ in HACKS.values())


def test_simulated_flips_turn_the_share_that_was_asked_for_and_say_so():
    judge = HeuristicPairJudge(Errors(flip=0.25), looks=False)
    assert judge.label == "simulated"
    prompts = [replace(PROMPT, id=f"p{number}") for number in range(150)]
    votes = [each.vote for prompt in prompts for each in judge_pair(judge, prompt, A, B).rounds]
    assert votes.count("B") / len(votes) == pytest.approx(0.25, abs=0.06)
    assert judge_pair(judge, PROMPT, A, B) == judge_pair(judge, PROMPT, A, B)
