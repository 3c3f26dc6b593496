"""Judges' verdicts in the score: terms, lines joined before the decay, and facts that tell failures from low scores."""

from __future__ import annotations

import math

import pytest

from botgrpo_cli.judges.blames import LineBlame
from botgrpo_cli.tasks.base import Attachment, Completion, Prompt
from botgrpo_cli.tasks.react.extract import extract
from botgrpo_cli.tasks.react.feedback import HOLLOW, Feedback
from botgrpo_cli.tasks.react.judges.verdicts import CodeVerdict, ScreenVerdict
from botgrpo_cli.tasks.react.keys import RewardConfig
from botgrpo_cli.tasks.react.render import Rendered
from botgrpo_cli.tasks.react.score import TERMS, score
from botgrpo_cli.tasks.react.workers import CheckResult, Diagnostic

CODE = "const a = 1;\n\nexport default function App() {\n  return <p>a</p>;\n}"
TEXT = f"Here:\n```jsx\n{CODE}\n```\n"
FIRST = 2  # line of the completion that the code starts on
GOOD = CheckResult(parsed=True, markup=True)
BAD = CheckResult(errors=(Diagnostic(3, "syntax", "Unexpected"),))
PAGE = Rendered("drawn", screenshot=b"\x89PNG", errors=("Error: x",))
PARTS = {"validity": 1.0, "task": 0.5, "aesthetic": 0.5}
CODE_SAYS = CodeVerdict(0.6, "ok", PARTS, lines=(LineBlame(0, 0.8, "unused"), LineBlame(3, 0.3, "bare")), text="fine")
SCREEN_SAYS = ScreenVerdict(0.4, "ok", lines=(LineBlame(3, 0.5, "small"),), text="plain")


def reward(code_judge: dict | None = None, vlm: dict | None = None, **keys) -> RewardConfig:
    spread = {"spread": {"kind": "none"}}
    return RewardConfig.model_validate({"code_judge": code_judge or {}, "vlm": vlm or {}, **spread, **keys})


def scored(said: Feedback, config: RewardConfig, result: CheckResult = GOOD, share: float = 1.0, text: str = TEXT):
    pieces = tuple(bytes([byte]) for byte in text.encode())
    done = Completion(Prompt("p", "brief", "easy", asks=("element:button",)), pieces, True)
    found = score(done, extract(text), result, config, share, said)
    assert len(found.local) == len(pieces)
    assert all(-1.0 <= value <= 0.0 for value in found.local)
    assert all(0.0 <= term <= 1.0 for term in found.terms.values())
    return found


def penalties(found) -> dict[int, float]:
    """By code line."""
    return {line - FIRST: penalty for line, penalty in found.detail["line_penalties"].items()}


def test_judges_that_are_off_leave_no_trace():
    found = scored(Feedback(), reward())
    assert set(found.terms) == set(TERMS)
    assert not any("judge" in name or name in ("blank_rate", "hollow_rate") for name in found.metrics)
    assert not any("judge" in key or key in ("render", "screenshot") for key in found.detail)


def test_terms_stand_alone_and_weights_act_on_their_own():
    said = Feedback(CODE_SAYS, SCREEN_SAYS, PAGE, "heuristic", True)
    plain = scored(Feedback(), reward()).reward
    found = scored(said, reward({"weight": 2.0}, {"mode": "global", "weight": 0.5}))
    assert (found.terms["code_judge"], found.terms["vlm"]) == (0.6, 0.4)
    assert found.reward == pytest.approx(plain + 2.0 * 0.6 + 0.5 * 0.4)
    measured = scored(said, reward({"measure": True}, {"mode": "global", "weight": 0, "measure": True}))
    assert measured.reward == plain
    assert (measured.terms["code_judge"], measured.terms["vlm"]) == (0.6, 0.4)
    assert set(measured.local) == {0.0}


def test_impacts_join_the_other_penalties_before_the_decay_and_the_worst_counts():
    findings = (Diagnostic(3, "no-undef", "x", "error"),)
    result = CheckResult(parsed=True, markup=True, findings=findings)
    said = Feedback(CODE_SAYS, SCREEN_SAYS, PAGE)
    assert penalties(scored(said, reward({"weight": 1, "lines": True}), result)) == {0: 0.8, 3: 0.6}
    softened = reward({"weight": 1, "lines": True}, spread={"kind": "exponential", "half_life": 1})
    assert penalties(scored(said, softened, result)) == {0: 0.8, 1: 0.4, 2: 0.3, 3: 0.6, 4: 0.3}


def test_line_weights_scale_the_impacts_of_their_own_judge():
    said = Feedback(CODE_SAYS, SCREEN_SAYS, PAGE)
    weak = reward({"weight": 1, "lines": True, "line_weight": 0.5}, {"mode": "local-1turn", "local_weight": 0.2})
    assert penalties(scored(said, weak)) == pytest.approx({0: 0.4, 3: 0.15})
    screen_alone = reward({"weight": 1}, {"mode": "local-2turn", "weight": 0})
    assert penalties(scored(said, screen_alone)) == {3: 0.5}
    assert penalties(scored(said, reward({"weight": 1}, {"mode": "global"}))) == {}


def test_penalties_stay_bounded_when_everyone_blames_the_same_line():
    full = CodeVerdict(0.0, "ok", PARTS, lines=(LineBlame(3, 1.0, "a"), LineBlame(3, 1.0, "b")))
    found = scored(Feedback(full), reward({"weight": 1, "lines": True}), BAD)
    assert penalties(found) == {3: 1.0}
    assert min(found.local) == -1.0


def test_failures_count_as_nothing_in_the_term_and_not_at_all_in_the_mean_of_scores():
    failed = Feedback(CodeVerdict(0.0, "malformed"), ScreenVerdict(0.0, "transport_failed"), PAGE)
    found = scored(failed, reward({"weight": 1, "lines": True}, {"mode": "local-1turn"}))
    assert (found.terms["code_judge"], found.terms["vlm"]) == (0.0, 0.0)
    assert math.isnan(found.metrics["judge_code_score"])
    assert math.isnan(found.metrics["judge_vlm_score"])
    low = Feedback(CodeVerdict(0.0, "ok", PARTS), ScreenVerdict(0.0, None), Rendered("blank"))
    found = scored(low, reward({"weight": 1}, {"mode": "global"}))
    assert (found.metrics["judge_code_score"], found.metrics["judge_vlm_score"]) == (0.0, 0.0)


def test_code_that_does_not_compile_has_no_page_and_scores_nothing_for_it():
    found = scored(Feedback(CODE_SAYS), reward({"weight": 1}, {"mode": "global"}), BAD)
    assert (found.terms["code_judge"], found.terms["vlm"]) == (0.6, 0.0)
    for name in ("judge_vlm_score", "blank_rate", "hollow_rate"):
        assert math.isnan(found.metrics[name])


def test_no_code_and_crashes_score_nothing():
    config = reward({"weight": 1}, {"mode": "global"})
    assert scored(Feedback(), config, CheckResult(), text="No.").reward == 0.0
    crashed = scored(Feedback(CODE_SAYS), config, CheckResult(crashed=True))
    assert (crashed.reward, set(crashed.local)) == (0.0, {0.0})


@pytest.mark.parametrize(
    ("page", "share", "blank", "hollow"),
    [
        (PAGE, 1.0, 0.0, 0.0),
        (PAGE, HOLLOW, 0.0, 0.0),
        (PAGE, HOLLOW - 0.01, 0.0, 1.0),
        (Rendered("blank", screenshot=b"x"), 1.0, 1.0, 1.0),
        (Rendered("error"), 1.0, 1.0, 1.0),
        (Rendered("timeout"), 1.0, 1.0, 1.0),
        (Rendered("crashed"), 1.0, 1.0, 1.0),
    ],
)
def test_blank_and_hollow(page, share, blank, hollow):
    found = scored(Feedback(rendered=page), reward(vlm={"measure": True}), share=share)
    assert (found.metrics["blank_rate"], found.metrics["hollow_rate"]) == (blank, hollow)
    assert found.metrics["render_failed"] == float(page.outcome in ("timeout", "crashed"))
    assert "vlm" not in found.terms


def test_every_rollout_has_the_same_facts_whatever_became_of_it():
    """A table of means over rollouts needs every column in every row."""
    config = reward({"weight": 1}, {"mode": "local-2turn"})
    done = scored(Feedback(CODE_SAYS, SCREEN_SAYS, PAGE), config)
    for said, result, text in ((Feedback(), CheckResult(), "No."), (Feedback(CODE_SAYS), BAD, TEXT)):
        other = scored(said, config, result, text=text)
        assert (other.metrics.keys(), other.terms.keys()) == (done.metrics.keys(), done.terms.keys())


def test_details_say_who_judged_and_name_lines_of_the_completion():
    said = Feedback(CODE_SAYS, SCREEN_SAYS, PAGE, "simulated", True)
    detail = scored(said, reward({"weight": 1, "lines": True}, {"mode": "local-1turn"})).detail
    assert detail["judge"] == "simulated"
    assert detail["judge_code"]["score"] == 0.6
    assert [line["line"] for line in detail["judge_code"]["lines"]] == [FIRST, FIRST + 3]
    assert detail["judge_vlm"]["lines"] == [{"line": FIRST + 3, "impact": 0.5, "why": "small"}]
    assert detail["render"] == {"outcome": "drawn", "why": "", "errors": ("Error: x",), "console": ()}
    assert detail["screenshot"] == Attachment(b"\x89PNG", "screenshots", ".png")
