"""Step verdicts to step scores: windows, propagation, unusable replies, and replies that come whenever they like."""

from __future__ import annotations

import sys
from collections import Counter
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from botgrpo_cli.errors import RunError
from botgrpo_cli.futures import ready
from botgrpo_cli.tasks.aime.verdicts import VERDICTS, StepReply, judge_steps, match, step_scores

STRATEGIES = ("error-propagation", "context-aware", "independent")
LETTERS = {"c": "correct", "u": "uncertain", "i": "incorrect", "-": None}


def spelled(letters: str) -> list:
    return [LETTERS[letter] for letter in letters]


class Judge:
    """Gives the verdicts it was made with and remembers what it was asked. `broken`: first ids of windows that fail."""

    def __init__(self, letters: str, broken: dict[int, str] | None = None) -> None:
        self.verdicts, self.broken = spelled(letters), broken or {}
        self.calls: list[tuple[list[int], list[int], dict]] = []

    def __call__(self, window, so_far, own) -> Future[StepReply]:
        self.calls.append(([step.id for step in window], [step.id for step in so_far], dict(own)))
        if window[0].id in self.broken:
            return ready(StepReply(self.broken[window[0].id], text="failed"))
        pairs = [(step.id, self.verdicts[step.id - 1]) for step in window]
        return ready(StepReply("ok", tuple(pair for pair in pairs if pair[1]), text="fine"))


def judged(letters: str, **named):
    judge = Judge(letters, named.pop("broken", None))
    return judge_steps([f"step {n}" for n in range(len(letters))], judge, **named).result(timeout=5), judge


def test_error_propagation_stops_after_the_window_with_the_first_incorrect_step():
    found, judge = judged("cucicucc", window=3)
    assert [call[0] for call in judge.calls] == [[1, 2, 3], [4, 5, 6]]
    assert [call[1] for call in judge.calls] == [[], [1, 2, 3]]
    assert found.scores == [1.0, 0.5, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert found.verdicts == [*spelled("cucicu"), None, None]
    assert (found.calls, found.malformed, found.texts) == (2, 0, ("fine", "fine"))


def test_independent_asks_all_and_shows_no_verdicts():
    found, judge = judged("ciccu", window=2, strategy="independent")
    assert judge.calls == [([1, 2], [], {}), ([3, 4], [1, 2], {}), ([5], [1, 2, 3, 4], {})]
    assert found.scores == [1.0, 0.0, 1.0, 1.0, 0.5]


def test_context_aware_shows_the_judge_its_own_verdicts():
    found, judge = judged("cic-u", window=2, strategy="context-aware")
    assert [call[2] for call in judge.calls] == [
        {},
        {1: "correct", 2: "incorrect"},
        {1: "correct", 2: "incorrect", 3: "correct"},
    ]
    assert found.scores == [1.0, 0.0, 1.0, 0.0, 0.5]


def test_error_propagation_shows_no_verdicts():
    _, judge = judged("ccccc", window=1)
    assert [call[2] for call in judge.calls] == [{}] * 5


@pytest.mark.parametrize("outcome", ["malformed", "refused", "transport_failed"])
def test_a_failed_window_scores_0_and_propagates_nothing(outcome):
    found, judge = judged("cccccccc", window=3, broken={4: outcome})
    assert len(judge.calls) == 3
    assert found.scores == [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0]
    assert found.malformed == 3
    assert found.outcomes == Counter({"ok": 2, outcome: 1})


def test_verdicts_of_a_failed_reply_are_not_read():
    reply = StepReply("malformed", ((1, "correct"),))
    found = judge_steps(["a"], lambda *_: ready(reply)).result(timeout=5)
    assert (found.verdicts, found.malformed, found.extra) == ([None], 1, 0)


def test_missing_ids_score_0_are_counted_and_propagate_nothing():
    found, _ = judged("c-cc-i", window=2)
    assert found.scores == [1.0, 0.0, 1.0, 1.0, 0.0, 0.0]
    assert found.malformed == 2


def test_replies_are_matched_by_id_and_not_by_position():
    reply = StepReply("ok", ((3, "incorrect"), (1, "correct"), (2, "uncertain"), (7, "incorrect")))
    found = judge_steps(["a", "b", "c"], lambda *_: ready(reply)).result(timeout=5)
    assert (found.scores, found.extra) == ([1.0, 0.5, 0.0], 1)


def test_of_repeated_ids_the_first_counts():
    found = match([1, 2], [(1, "incorrect"), (1, "correct"), (2, "correct"), (2, "correct")])
    assert found.verdicts == {1: "incorrect", 2: "correct"}
    assert (found.missing, found.extra, found.repeated) == (0, 0, 2)


@pytest.mark.parametrize(
    "pair",
    [("1", "correct"), (1.0, "correct"), (True, "correct"), (None, None), (1, "Correct"), (1, ""), (1, []), ([], 1)],
)
def test_what_is_no_entry_is_extra(pair):
    assert match([1], [pair]) == match([1], [(99, "correct")])


def test_values_can_be_chosen():
    values = {"correct": 0.9, "uncertain": 0.3, "incorrect": 0.1}
    assert step_scores(spelled("cuic"), values=values) == [0.9, 0.3, 0.1, 0.0]
    assert step_scores(spelled("cuic"), values=values, strategy="independent") == [0.9, 0.3, 0.1, 0.9]


def test_no_steps_are_no_calls():
    found, judge = judged("")
    assert (found.scores, found.calls, judge.calls) == ([], 0, [])


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"window": 0}, "at least 1 step"),
        ({"strategy": "none"}, "error-propagation, context-aware, independent"),
        ({"values": {"correct": 1.0}}, "a number from 0 to 1 for each"),
        ({"values": {"correct": 1.0, "uncertain": 0.5, "incorrect": -1.0}}, "a number from 0 to 1"),
    ],
)
def test_wrong_calls(wrong, says):
    with pytest.raises(ValueError, match=says):
        judge_steps(["a"], Judge("c"), **wrong)


LETTER_TEXTS = st.text(st.sampled_from("cccui-"), max_size=20)


@settings(max_examples=300, deadline=None)
@given(LETTER_TEXTS, st.integers(1, 6), st.sampled_from(STRATEGIES))
def test_scores_do_not_depend_on_the_window(letters, window, strategy):
    found, judge = judged(letters, window=window, strategy=strategy)
    assert found.scores == step_scores(spelled(letters), strategy=strategy)
    assert found.scores == judged(letters, window=1, strategy=strategy)[0].scores
    asked = [step for call in judge.calls for step in call[0]]
    assert asked == list(range(1, len(asked) + 1))
    first = letters.find("i")
    last = len(letters) if strategy != "error-propagation" or first < 0 else first + 1
    assert last <= len(asked) < last + window
    if strategy == "error-propagation" and first >= 0:
        assert not any(found.scores[first:])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(-1, 5) | st.booleans() | st.text(max_size=2), st.sampled_from([*VERDICTS, "x"]))))
def test_every_entry_of_a_reply_is_accounted_for(pairs):
    found = match([1, 2, 3], pairs)
    assert len(found.verdicts) + found.extra + found.repeated == len(pairs)
    assert len(found.verdicts) + found.missing == 3


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_replies_from_threads_in_any_order(strategy):
    letters = "cucccuccc-ccuccccccccc"
    with ThreadPoolExecutor(4) as pool:

        def ask(window, so_far, own):
            return pool.submit(lambda: Judge(letters)(window, so_far, own).result())

        together = [judge_steps(list(letters), ask, window=2, strategy=strategy) for _ in range(30)]
        alone = judged(letters, window=2, strategy=strategy)[0]
        assert [future.result(timeout=30) for future in together] == [alone] * 30


def test_independent_replies_may_come_in_reverse():
    waiting: list[tuple[Future[StepReply], StepReply]] = []

    def ask(window, so_far, own):
        waiting.append((Future(), Judge("ciccu")(window, so_far, own).result()))
        return waiting[-1][0]

    future = judge_steps(list("abcde"), ask, window=2, strategy="independent")
    assert len(waiting) == 3
    for each, reply in reversed(waiting):
        assert not future.done()
        each.set_result(reply)
    assert future.result(timeout=5).scores == [1.0, 0.0, 1.0, 1.0, 0.5]


def test_ready_replies_do_not_nest():
    limit = sys.getrecursionlimit()
    letters = "c" * (limit * 2)
    assert judged(letters, window=1)[0].scores == [1.0] * len(letters)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("later", [False, True])
def test_what_a_call_raises_the_future_raises(strategy, later):
    def ask(window, so_far, own):
        if window[0].id == 3:
            future: Future[StepReply] = Future()
            if later:
                waiting.append(future)
            else:
                future.set_exception(RunError("the server said no"))
            return future
        return Judge("cccc")(window, so_far, own)

    waiting: list[Future[StepReply]] = []
    future = judge_steps(list("abcd"), ask, window=2, strategy=strategy)
    for each in waiting:
        each.set_exception(RunError("the server said no"))
    with pytest.raises(RunError, match="the server said no"):
        future.result(timeout=5)


def test_a_call_that_fails_at_once_and_a_cancelled_one_reach_the_caller():
    def broken(window, so_far, own):
        raise RunError("closed")

    with pytest.raises(RunError, match="closed"):
        judge_steps(["a"], broken).result(timeout=5)
    cancelled: Future[StepReply] = Future()
    future = judge_steps(["a"], lambda *_: cancelled)
    cancelled.cancel()
    with pytest.raises(CancelledError):
        future.result(timeout=5)


def test_random_judges_agree_with_the_definition():
    rng = Random(0)
    for _ in range(300):
        letters = "".join(rng.choice("cccui-") for _ in range(rng.randrange(15)))
        window = rng.randrange(1, 6)
        broken = {n: "malformed" for n in range(1, len(letters) + 1, window) if rng.random() < 0.2}
        found, _ = judged(letters, window=window, broken=broken)
        given_ = ["-" if (n // window) * window + 1 in broken else letter for n, letter in enumerate(letters)]
        expected, wrong = [], False
        for letter in given_:
            expected.append(0.0 if wrong else {"c": 1.0, "u": 0.5}.get(letter, 0.0))
            wrong = wrong or letter == "i"
        assert found.scores == expected
