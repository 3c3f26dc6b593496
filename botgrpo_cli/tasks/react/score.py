"""From what the tools said of a completion to its reward terms and token-level penalties. Pure: no I/O, no state."""

from __future__ import annotations

from typing import Any

from botgrpo_cli.rewards.spans import line_of_token
from botgrpo_cli.rewards.spread import spread
from botgrpo_cli.rewards.stack import weighted_sum
from botgrpo_cli.tasks.base import Completion, Scored
from botgrpo_cli.tasks.react.extract import MAX_CODE_BYTES, Extracted
from botgrpo_cli.tasks.react.feedback import Feedback, judge_blames, judge_detail, judge_metrics, judge_terms
from botgrpo_cli.tasks.react.keys import RewardConfig
from botgrpo_cli.tasks.react.workers import CheckResult, Diagnostic

TERMS = ("format", "clean_lines", "compile", "lint", "content")
FACTS = ("compile_rate", "lint_clean_rate", "lint_errors", "lint_warnings")  # what a study may be about, of the metrics
WARNING_COST = 0.3  # of an error, in the lint term
# Code that breaks off has its only error at its end. Counted in full, its clean lines would pay better than finishing
# with a mistake; with format 0 as well, the terms of a broken-off answer stay below those of any finished one.
UNCLOSED = 0.5
NOTHING = Feedback()


def score(
    completion: Completion,
    found: Extracted,
    result: CheckResult,
    reward: RewardConfig,
    content_share: float,
    said: Feedback = NOTHING,
) -> Scored:
    """Terms, metrics, token-level signal and details of one completion (paper, reward design; the terms' forms are
    our choice).

    `content_share` in [0, 1] counts only for code that compiles. `said` is what judges and the browser said. A sample
    that crashed two workers gets 0 for every term and no penalties; a completion without code gets 0 for every term,
    and `reward.local.no_code` on every token.
    Line numbers in `detail` are 0-based lines of the completion, as in `rewards.spans.line_of_token`.

    Shapes: `Scored.local` [T] in [-1, 0] and `Scored.steps` [T], T = len(completion.pieces). A step is a line.
    """
    lines = line_of_token(completion.pieces)  # [T]
    judged = judge_terms(said, reward)
    if found.code is None or result.crashed:
        judged = dict.fromkeys(judged, 0.0)
    terms = _terms(found, result, content_share) | judged
    softened = _softened(found, result, reward, said)
    share = content_share if completion.prompt.asks else None
    return Scored(
        reward=weighted_sum(terms, {name: getattr(reward, name).weight for name in terms}),
        local=_on_tokens(lines, found.first_line, softened) if found.code is not None else _all_blamed(lines, reward),
        terms=terms,
        metrics=_metrics(completion, terms, result)
        | judge_metrics(said, reward, compiled=terms["compile"] == 1.0, share=share),
        detail=_detail(found, result, softened) | judge_detail(said, found.first_line),
        steps=lines,
    )


def _terms(found: Extracted, result: CheckResult, content_share: float) -> dict[str, float]:
    if found.code is None or result.crashed:
        return dict.fromkeys(TERMS, 0.0)
    return {
        "format": found.format,
        "clean_lines": _clean_lines(found.code, result) * (1.0 if found.closed else UNCLOSED),
        "compile": float(result.compiled),
        "lint": _lint(result),
        "content": content_share if result.compiled else 0.0,
    }


def _clean_lines(code: str, result: CheckResult) -> float:
    """Share of the non-blank lines before the first compile error, 1 when there is none.

    Code that parses but holds no JSX is no attempt at a component (a comment, a bare word): 0, however long it is.
    """
    if result.compiled:
        return 1.0
    if result.parsed and not result.markup:
        return 0.0
    first = min(_blamed_line(code, error) for error in result.errors)
    written = [number for number, line in enumerate(code.split("\n")) if line.strip()]
    return sum(number < first for number in written) / max(1, len(written))


def _lint(result: CheckResult) -> float:
    """1 / (1 + errors + 0.3 * warnings); 0 when ESLint could not read or check the file, or it has no JSX."""
    if not result.parsed or not result.markup or any(f.rule == "crash" for f in result.findings):
        return 0.0
    cost = sum(1.0 if f.severity == "error" else WARNING_COST for f in result.findings)
    return 1.0 / (1.0 + cost)


def _blamed_line(code: str, diagnostic: Diagnostic) -> int:
    """An error without a line is of something that is missing (the export): the last written line answers for it,
    because what is missing should stand behind it."""
    lines = code.split("\n")
    if diagnostic.line is None:
        return max((number for number, line in enumerate(lines) if line.strip()), default=0)
    return min(max(diagnostic.line, 0), len(lines) - 1)


def _line_penalties(code: str, result: CheckResult, reward: RewardConfig, said: Feedback) -> list[float]:
    """Penalty of each code line before softening; the worst finding on a line counts, a judge's impact (times its
    weight) among them. So compiler, linter and judges are combined before the decay (paper), and no line leaves [0, 1].

    Compile errors in line order count less and less: a parser that has lost its footing reports echoes. On generated
    components with known damage the first reported line was a damaged one in 77 % of cases, the second in 58 %, the
    third in 39 %, later ones in 20-25 %: these are mostly the closing lines, where a parser notices what went wrong
    above. Blamed in full, a policy learns never to close what it opened.
    """
    local = reward.local
    penalties = [0.0] * (code.count("\n") + 1)
    lines = sorted({_blamed_line(code, error) for error in result.errors})
    blamed = [(line, local.compile_error * local.later_errors**rank) for rank, line in enumerate(lines)]
    for finding in result.findings:
        if finding.line is not None:
            cost = local.lint_error if finding.severity == "error" else local.lint_warning
            blamed.append((_blamed_line(code, finding), cost))
    blamed += [(blame.line, blame.impact * weight) for blame, weight in judge_blames(said, reward)]
    for line, penalty in blamed:
        penalties[line] = max(penalties[line], penalty)
    return penalties


def _softened(found: Extracted, result: CheckResult, reward: RewardConfig, said: Feedback) -> list[float]:
    """Softened penalties of the code's lines; they don't reach the fences or the prose around the code."""
    if found.code is None or result.crashed:
        return []
    penalties = _line_penalties(found.code, result, reward, said)
    return spread(penalties, kind=reward.spread.kind, half_life=reward.spread.half_life)


def _all_blamed(lines: list[int], reward: RewardConfig) -> list[float]:
    """Without code there is no line to blame, and to write none must not pay better than a mistake: each token is."""
    return [-reward.local.no_code if reward.local.no_code else 0.0] * len(lines)  # [T]


def _on_tokens(lines: list[int], first_line: int, softened: list[float]) -> list[float]:
    """Every token takes minus the penalty of its line; special tokens and lines outside the code take 0."""
    signal = []
    for line in lines:  # [T]
        index = line - first_line
        inside = line >= 0 and 0 <= index < len(softened)
        signal.append(-softened[index] if inside and softened[index] else 0.0)
    return signal  # [T]


def _metrics(completion: Completion, terms: dict[str, float], result: CheckResult) -> dict[str, float]:
    errors = sum(f.severity == "error" for f in result.findings)
    return {
        "compile_rate": terms["compile"],
        "lint_clean_rate": float(terms["compile"] == 1.0 and terms["lint"] == 1.0),
        "format_rate": float(terms["format"] == 1.0),
        "lint_errors": float(errors),
        "lint_warnings": float(len(result.findings) - errors),
        "truncated": float(not completion.finished),
        "length": float(len(completion.pieces)),
        "worker_failed": float(result.crashed),
    }


def _detail(found: Extracted, result: CheckResult, softened: list[float]) -> dict[str, Any]:
    def listed(diagnostics: tuple[Diagnostic, ...], tool: str) -> list[dict[str, Any]]:
        shift = found.first_line
        return [
            {
                "tool": tool,
                "line": None if d.line is None else d.line + shift,
                "rule": d.rule,
                "message": d.message,
                "severity": d.severity,
            }
            for d in diagnostics
        ]

    return {
        "code": None if found.code is None else found.code[:MAX_CODE_BYTES],
        "language": found.language,
        "first_line": found.first_line,
        "closed": found.closed,
        "blocks": found.blocks,
        "crashed": result.crashed,
        "diagnostics": listed(result.errors, "compile") + listed(result.findings, "lint"),
        "line_penalties": {found.first_line + i: round(p, 4) for i, p in enumerate(softened) if p},
    }
