"""The offline code judge: good apps above every trick, the right line blamed, and simulated errors as asked for."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from botgrpo_cli.judges.blames import MAX_LINES
from botgrpo_cli.judges.simulate import Errors
from botgrpo_cli.tasks.base import Prompt
from botgrpo_cli.tasks.react.judges.heuristic import judge_code
from botgrpo_cli.tasks.react.workers import CheckResult, Diagnostic
from botgrpo_cli.tiny.react import tasks, write
from tests.judges.apps import APPS, GOOD, HACKS, HI, PROMPT

WORST_APP = min(judge_code(PROMPT, code).score for code in APPS.values())
GENERATED = [(task.prompt, write(task, Random(number))) for number, task in enumerate(tasks("held-out"))]


@pytest.mark.parametrize("name", APPS)
def test_an_app_that_does_what_was_asked_scores_high_and_nothing_of_it_is_blamed(name):
    verdict = judge_code(PROMPT, APPS[name])
    assert verdict.score > 0.8, verdict
    assert verdict.parts["validity"] == verdict.parts["task"] == 1.0
    assert (verdict.outcome, verdict.not_react, verdict.lines) == ("ok", False, ())


@pytest.mark.parametrize("name", HACKS)
def test_a_trick_scores_clearly_below_every_app(name):
    verdict = judge_code(PROMPT, HACKS[name][0])
    assert verdict.score < WORST_APP - 0.1, verdict


@pytest.mark.parametrize("name", [name for name, (_, piece) in HACKS.items() if piece])
def test_the_line_of_a_trick_is_blamed_first(name):
    code, piece = HACKS[name]
    verdict = judge_code(PROMPT, code)
    assert piece in code.split("\n")[verdict.lines[0].line], verdict
    assert 0.0 < verdict.lines[0].impact <= 1.0
    assert len(verdict.lines) <= MAX_LINES


@pytest.mark.parametrize("name", ["returns null", "no component", "element as export", "one solid colour"])
def test_what_shows_nothing_or_is_no_component_scores_next_to_nothing(name):
    verdict = judge_code(PROMPT, HACKS[name][0])
    assert verdict.score <= 0.35
    assert verdict.not_react == (name in ("returns null", "no component", "element as export"))
    assert not verdict.not_react or verdict.score == 0.0


def test_every_generated_component_beats_the_simplest_one_and_is_blamed_for_nothing():
    for prompt, code in GENERATED:
        good, simple = judge_code(prompt, code), judge_code(prompt, HI)
        assert good.score > 0.9 > simple.score + 0.5, (code, good, simple)
        assert good.lines == ()


def test_a_component_for_another_brief_scores_less():
    """Each brief with the answer to the one before it."""
    own = [judge_code(prompt, code).score for prompt, code in GENERATED[:100]]
    other = [judge_code(GENERATED[n - 1][0], GENERATED[n][1]).score for n in range(100)]
    assert sum(o < s for o, s in zip(other, own, strict=True)) >= 97


def test_more_of_what_was_asked_scores_more():
    without = GOOD.replace("      <button onClick={() => setCount(0)}>Reset</button>\n", "")
    assert judge_code(PROMPT, HI).score < judge_code(PROMPT, without).score < judge_code(PROMPT, GOOD).score


def test_a_guarded_throw_and_a_guarded_null_are_no_faults():
    guarded = GOOD.replace("  return (\n", "  if (count < 0) throw new Error('never');\n  return (\n", 1)
    loading = GOOD.replace("useState(0);", "useState(0);\n  const [user, setUser] = useState(null);").replace(
        "<p>Count", "{user && <b>{user.name}</b>}\n      <p>Count"
    )
    parent = GOOD.replace("App()", "App({ start = 0 })").replace("useState(0)", "useState(start.valueOf())")
    for code in (guarded, loading, parent):
        verdict = judge_code(PROMPT, code)
        assert (verdict.parts["validity"], verdict.lines) == (1.0, ())
        assert verdict.score == pytest.approx(judge_code(PROMPT, GOOD).score, abs=0.02)


def test_white_text_on_a_dark_parent_can_be_read():
    dark = GOOD.replace("padding: 24,", "background: '#222', color: 'white',").replace(
        "<h1>", "<h1 style={{ color: '#fff' }}>"
    )
    assert judge_code(PROMPT, dark).lines == ()


def test_native_fields_and_forms_are_live_and_frozen_ones_are_not():
    def dead(body: str) -> int:
        code = f"export default function App() {{\n  return (\n    <div>{body}</div>\n  );\n}}\n"
        return sum("nothing" in blame.why for blame in judge_code(PROMPT, code).lines)

    live = ("<input />", "<input value={v} onChange={set} />", "<select><option>a</option></select>")
    live += ("<form onSubmit={save}><input value={v} /><button>Save</button></form>", '<a href="/x">x</a>')
    live += ("<button {...rest}>a</button>", "<button onClick={() => setOpen(true)}>a</button>")
    assert [dead(body) for body in live] == [0] * len(live)
    idle = ("<button>a</button>", "<button onClick={() => {}}>a</button>", "<input value={v} />", '<a href="#">x</a>')
    idle += ("<button onClick={() => console.log(1)}>a</button>", '<form><button type="button">a</button></form>')
    assert [dead(body) for body in idle] == [1] * len(idle)


def test_code_that_does_not_parse_is_judged_too_and_scores_less():
    broken = GOOD.replace("</main>", "")
    verdict = judge_code(PROMPT, broken)
    assert verdict.parts["validity"] == 0.0
    assert 0.0 < verdict.score < 0.2
    assert verdict.lines == ()  # what does not compile is the compiler's to blame
    refused = CheckResult(errors=(Diagnostic(0, "syntax", "Unexpected"),))
    assert verdict == judge_code(PROMPT, broken, refused)
    unclear = GOOD.replace("useState(0)", "useState(0 0)")  # no bracket tells
    assert judge_code(PROMPT, unclear, refused).score < 0.5 < judge_code(PROMPT, unclear).score


def test_a_name_that_the_linter_does_not_know_is_blamed_and_costs_most_of_the_score():
    """Such code compiles and shows nothing."""
    code = GOOD.replace("  return (", "  retuurn (")
    undefined = CheckResult(parsed=True, markup=True, findings=(Diagnostic(4, "no-undef", "retuurn", "error"),))
    verdict = judge_code(PROMPT, code, undefined)
    assert verdict.score < 0.5
    assert "retuurn" in code.split("\n")[verdict.lines[0].line]
    other = CheckResult(parsed=True, markup=True, findings=(Diagnostic(4, "no-unused-vars", "a", "warning"),))
    assert judge_code(PROMPT, GOOD, other) == judge_code(PROMPT, GOOD)


def test_a_prompt_without_asks_goes_by_its_words():
    prompt = Prompt("p", "The garden, with plus and reset", "easy")
    assert judge_code(prompt, GOOD).parts["task"] == 1.0
    assert judge_code(prompt, HI).parts["task"] == 0.0


def test_the_same_source_always_gets_the_same_verdict_with_noise_as_without():
    noisy = Errors(seed=1, noise=0.2, attribution_error=0.5)
    assert judge_code(PROMPT, GOOD, errors=noisy) == judge_code(PROMPT, GOOD, errors=noisy)
    assert judge_code(PROMPT, GOOD) == judge_code(PROMPT, GOOD)
    others = {judge_code(PROMPT, GOOD, errors=Errors(seed=seed, noise=0.2)).score for seed in range(20)}
    assert len(others) > 5


def test_noise_has_the_size_that_was_asked_for():
    errors = Errors(seed=0, noise=0.05)
    values = [errors.score(0.5, "code", str(number)) for number in range(2000)]
    mean = sum(values) / len(values)
    spread = (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5
    assert mean == pytest.approx(0.5, abs=0.005)
    assert spread == pytest.approx(0.05, abs=0.005)
    assert all(0.0 <= Errors(seed=0, noise=1.0).score(0.5, str(n)) <= 1.0 for n in range(200))


def test_attribution_errors_move_the_share_that_was_asked_for():
    code = HACKS["dead buttons"][0]
    truth = judge_code(PROMPT, code).lines
    assert judge_code(PROMPT, code, errors=Errors(attribution_error=1.0)).lines != truth
    moved = kept = 0
    for seed in range(500):
        found = judge_code(PROMPT, code, errors=Errors(seed, attribution_error=0.3)).lines
        assert [blame.impact for blame in found] == [blame.impact for blame in truth]
        moved += sum(a.line != b.line for a, b in zip(found, truth, strict=True))
        kept += sum(a.line == b.line for a, b in zip(found, truth, strict=True))
        assert all(code.split("\n")[blame.line].strip() for blame in found)
    assert moved / (moved + kept) == pytest.approx(0.3, abs=0.05)


def test_without_lines_nothing_is_blamed():
    assert judge_code(PROMPT, HACKS["dead buttons"][0], lines=False).lines == ()


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="<>{}()[]=\"'`/* \nabAp.;:,&?" + "\u2028é", max_size=200) | st.text(max_size=80))
def test_any_text_is_judged(text):
    verdict = judge_code(PROMPT, "export default function App() {\n return (" + text)
    assert 0.0 <= verdict.score <= 1.0
    assert all(0 <= blame.line <= text.count("\n") + 1 and 0 < blame.impact <= 1 for blame in verdict.lines)


def test_long_hostile_text_takes_linear_time():
    """Sizes that would take minutes if any pattern were quadratic with a large factor."""
    for piece in (
        "<a ",
        "style={{",
        "onClick={() => ",
        "export default ",
        "props.a.",
        "(",
        "const a = null;\n",
        "throw ",
    ):
        verdict = judge_code(
            PROMPT, "export default function App() { return <p>a</p>; }\n" + piece * (20_000 // len(piece))
        )
        assert 0.0 <= verdict.score <= 1.0
