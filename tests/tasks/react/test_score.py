"""Terms, metrics and token-level signal of a completion, from given findings of the tools."""

from __future__ import annotations

import pytest

from botgrpo_cli.recipe.section import SpreadConfig, TermConfig
from botgrpo_cli.tasks.base import Completion, Prompt
from botgrpo_cli.tasks.react.extract import extract
from botgrpo_cli.tasks.react.keys import LocalConfig, RewardConfig
from botgrpo_cli.tasks.react.score import score
from botgrpo_cli.tasks.react.workers import CheckResult, Diagnostic

CODE = "const a = 1;\n\nexport default function App() {\n  return <p>hé</p>;\n}"
TEXT = f"Here:\n```jsx\n{CODE}\n```\n"
FIRST = 2  # line of the completion that the code starts on
GOOD = CheckResult(parsed=True, markup=True)
SHARP = RewardConfig(spread=SpreadConfig(kind="none"))


def completion(text: str = TEXT, finished: bool = True) -> Completion:
    """One token a byte, then an end token when finished."""
    pieces = tuple(bytes([byte]) for byte in text.encode("utf-8", "replace"))
    return Completion(Prompt("p", "brief", "easy"), pieces + (b"",) * finished, finished)


def scored(
    result: CheckResult, text: str = TEXT, reward: RewardConfig = SHARP, share: float = 0.0, finished: bool = True
):
    done = completion(text, finished)
    found = score(done, extract(done.text), result, reward, share)
    assert len(found.local) == len(done.pieces)
    assert all(-1.0 <= value <= 0.0 for value in found.local)
    assert all(0.0 <= term <= 1.0 for term in found.terms.values())
    return found


def by_line(found, text: str = TEXT) -> dict[int, set[float]]:
    """Signals on the tokens of each line of the completion."""
    lines: dict[int, set[float]] = {}
    line = 0
    for byte, value in zip(text.encode(), found.local, strict=False):
        lines.setdefault(line, set()).add(value)
        line += byte == ord("\n")
    return lines


def test_a_clean_component_gets_everything():
    found = scored(GOOD, share=0.5)
    assert found.terms == {"format": 1.0, "clean_lines": 1.0, "compile": 1.0, "lint": 1.0, "content": 0.5}
    assert found.reward == pytest.approx(0.2 + 0.3 + 1.0 + 0.3)
    assert set(found.local) == {0.0}
    assert found.metrics["compile_rate"] == found.metrics["lint_clean_rate"] == found.metrics["format_rate"] == 1.0
    assert found.metrics["truncated"] == 0.0
    assert found.metrics["length"] == len(TEXT.encode()) + 1


def test_each_weight_acts_on_its_own_term():
    terms = ("format", "clean_lines", "compile", "lint", "content")
    for name in terms:
        weights = {other: TermConfig(weight=2.0 if other == name else 0.0) for other in terms}
        found = scored(GOOD, reward=RewardConfig(**weights), share=0.25)
        assert found.reward == pytest.approx(2.0 * found.terms[name])


def test_a_compile_error_falls_on_the_tokens_of_its_line_alone():
    found = scored(CheckResult(errors=(Diagnostic(3, "syntax", "Unexpected"),)))
    assert found.terms["compile"] == found.terms["lint"] == found.terms["content"] == 0.0
    assert found.terms["clean_lines"] == pytest.approx(2 / 4)  # of four written lines, two stand before it
    lines = by_line(found)
    assert lines.pop(FIRST + 3) == {-1.0}
    assert set.union(*lines.values()) == {0.0}
    assert found.local[-1] == 0.0  # the end token


def test_penalties_soften_within_the_code_only():
    found = scored(CheckResult(errors=(Diagnostic(0, "syntax", "Unexpected"),)), reward=RewardConfig())
    lines = by_line(found)
    assert lines[FIRST] == {-1.0}
    assert lines[FIRST + 1] == {-0.5}
    assert lines[FIRST + 2] == {-0.25}
    assert lines[FIRST - 1] == lines[0] == {0.0}
    assert found.detail["line_penalties"][FIRST + 1] == 0.5


def test_lint_findings_cost_by_severity_and_the_worst_counts():
    findings = (Diagnostic(0, "no-undef", "x", "error"), Diagnostic(0, "no-unused-vars", "a", "warning"))
    findings += (Diagnostic(2, "a11y", "b", "warning"),)
    found = scored(CheckResult(parsed=True, markup=True, findings=findings))
    lines = by_line(found)
    assert lines[FIRST] == {-0.6}
    assert lines[FIRST + 2] == {-0.2}
    assert found.terms["compile"] == 1.0
    assert found.terms["lint"] == pytest.approx(1 / (1 + 1 + 2 * 0.3))
    assert (found.metrics["lint_errors"], found.metrics["lint_warnings"]) == (1.0, 2.0)
    assert found.metrics["lint_clean_rate"] == 0.0


def test_local_weights_come_from_the_recipe():
    reward = RewardConfig(local=LocalConfig(compile_error=0.25), spread=SpreadConfig(kind="none"))
    found = scored(CheckResult(errors=(Diagnostic(3, "syntax", "Unexpected"),)), reward=reward)
    assert min(found.local) == -0.25


def test_a_missing_export_falls_on_the_last_written_line():
    text = f"```jsx\n{CODE}\n\n\n```\n"
    found = scored(CheckResult(errors=(Diagnostic(None, "component", "no export"),), parsed=True, markup=True), text)
    lines = by_line(found, text)
    assert lines[1 + 4] == {-1.0}
    assert found.terms["clean_lines"] == pytest.approx(3 / 4)


def test_code_without_any_jsx_earns_no_clean_lines_and_no_lint():
    text = "```jsx\n" + "a;\n" * 50 + "```\n"
    found = scored(CheckResult(errors=(Diagnostic(None, "component", "no export"),), parsed=True), text)
    assert found.terms["clean_lines"] == found.terms["lint"] == 0.0


def test_a_line_beyond_the_code_is_the_last_one():
    found = scored(CheckResult(errors=(Diagnostic(99, "syntax", "Unexpected end of file"),)))
    assert by_line(found)[FIRST + 4] == {-1.0}


def test_what_eslint_could_not_check_is_not_clean():
    crash = (Diagnostic(None, "crash", "ESLint could not check this file", "error"),)
    found = scored(CheckResult(parsed=True, markup=True, findings=crash))
    assert found.terms["lint"] == 0.0
    assert found.metrics["lint_clean_rate"] == 0.0


def test_no_code_scores_nothing_and_blames_nothing():
    found = scored(CheckResult(), "I can't do that.")
    assert found.reward == 0.0
    assert set(found.terms.values()) == {0.0}
    assert set(found.local) == {0.0}
    assert found.metrics["compile_rate"] == 0.0


@pytest.mark.parametrize("text", ["Sorry.", "", "```\n```\n```\n", "```jsx\n\n```\n"])
def test_to_write_no_code_can_be_blamed_on_every_token(text):
    reward = SHARP.model_copy(update={"local": LocalConfig(no_code=0.75)})
    assert set(scored(GOOD, text, reward).local) == {-0.75}  # the end token too: to stop here is the mistake
    assert set(scored(GOOD, reward=reward).local) == {0.0}
    assert set(scored(CheckResult(crashed=True), reward=reward).local) == {0.0}


def test_a_sample_that_killed_its_workers_scores_nothing():
    found = scored(CheckResult(crashed=True))
    assert found.reward == 0.0
    assert found.metrics["worker_failed"] == 1.0
    assert set(found.local) == {0.0}


def test_truncation_is_a_metric():
    found = scored(CheckResult(errors=(Diagnostic(4, "syntax", "end"),)), f"```jsx\n{CODE}", finished=False)
    assert found.metrics["truncated"] == 1.0
    assert found.terms["format"] == 0.0
    assert found.metrics["format_rate"] == 0.0


def test_breaking_off_never_pays_better_than_finishing_with_a_mistake():
    """By the sum of the terms, at the default weights: a clean prefix against the worst finished component."""
    broken_off = scored(CheckResult(errors=(Diagnostic(4, "syntax", "end"),)), f"```jsx\n{CODE}", finished=False)
    finished = scored(CheckResult(errors=(Diagnostic(0, "syntax", "x"),)))
    assert finished.terms["clean_lines"] == 0.0
    assert broken_off.terms["clean_lines"] == pytest.approx(0.5 * 3 / 4)
    assert broken_off.reward < finished.reward


def test_later_compile_errors_count_less_and_less():
    errors = tuple(Diagnostic(line, "syntax", "x") for line in (4, 0, 3, 3))
    found = scored(CheckResult(errors=errors))
    signal = by_line(found)
    assert [signal[FIRST + line] for line in (0, 3, 4)] == [{-1.0}, {-0.35}, {-(0.35**2)}]


def test_a_character_cut_in_half_moves_no_line():
    pieces = (b"```jsx\n", b"const s = '", b"\xc3", b"\n", b"let", b"\n```")
    done = Completion(Prompt("p", "b", "easy"), pieces, False)
    found = score(done, extract(done.text), CheckResult(errors=(Diagnostic(1, "syntax", "x"),)), SHARP, 0.0)
    assert found.local == [0.0, 0.0, 0.0, 0.0, -1.0, 0.0]


def test_details_name_lines_of_the_completion():
    error = Diagnostic(3, "syntax", "Unexpected")
    found = scored(CheckResult(errors=(error,)))
    assert found.detail["code"] == CODE
    assert found.detail["diagnostics"] == [
        {"tool": "compile", "line": FIRST + 3, "rule": "syntax", "message": "Unexpected", "severity": "error"}
    ]
    assert found.detail["line_penalties"] == {FIRST + 3: 1.0}
