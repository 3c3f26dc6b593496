"""The `reward:` section: global terms, judges, penalties of lines and their decay."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from botgrpo_cli.recipe.section import Count, Section, Share, Weight


class TermConfig(Section):
    weight: Weight
    """Weight of this global term; the term itself lies in [0, 1]. 0 only logs it."""


class LocalConfig(Section):
    compile_error: Share = 1.0
    """Penalty of a line with a compile error."""
    later_errors: Share = 0.35
    """Each further line with a compile error counts this much of the one before: later errors are often echoes."""
    lint_error: Share = 0.6
    """Penalty of a line with an ESLint error."""
    lint_warning: Share = 0.2
    """Penalty of a line with an ESLint warning."""
    no_code: Share = 0.0
    """Penalty of every token of a completion without code, which has no lines to blame."""


class SpreadConfig(Section):
    kind: Literal["exponential", "linear", "none"] = "exponential"
    """How a line's penalty softens over nearby lines."""
    half_life: Annotated[float, Field(gt=0)] = 1.0
    """Lines after which an exponential penalty has halved; a linear one reaches zero at twice this distance."""


class CodeJudgeConfig(Section):
    weight: Weight = 0.0
    """Weight of the code judge's score. 0 (without measure, and without lines that count) asks nobody."""
    lines: bool = False
    """The judge also names up to three lines in the same call; their impacts join the penalties of lines."""
    line_weight: Share = 1.0
    """An impact is multiplied by this before it joins the other penalties."""
    measure: bool = False
    """Ask and log also where nothing is weighted."""

    @property
    def on(self) -> bool:
        """Whether anyone is asked."""
        return self.weight > 0 or (self.lines and self.line_weight > 0) or self.measure


class VlmConfig(Section):
    mode: Literal["none", "global", "local-1turn", "local-2turn"] = "none"
    """What the screenshot judge does: nothing, score, score and name lines in one call, or name them in a second."""
    weight: Weight = 1.0
    """Weight of the screenshot score, which is 0 for code that does not compile and for pages that show nothing."""
    local_weight: Share = 1.0
    """An impact is multiplied by this before it joins the other penalties; counts in the local modes."""
    measure: bool = False
    """Log also where nothing is weighted: with mode none blank and hollow pages alone, which asks no judge."""

    @property
    def judged(self) -> bool:
        """Whether a judge is asked."""
        return self.mode != "none" and (self.weight > 0 or self.local or self.measure)

    @property
    def local(self) -> bool:
        """Whether lines are named and count."""
        return self.mode.startswith("local") and self.local_weight > 0

    @property
    def rendered(self) -> bool:
        """Whether pages are drawn in a browser."""
        return self.judged or self.measure


class StepsConfig(Section):
    strategy: Literal["error-propagation", "context-aware", "independent", "none"] = "error-propagation"
    """After the first incorrect step all score 0; the judge sees its own earlier verdicts; or each call stands alone;
    none asks nobody."""
    window: Count = 3
    """Steps a call of the judge."""
    correct: Share = 1.0
    """Score of a step that the judge calls correct."""
    uncertain: Share = 0.5
    """Score of a step that the judge is uncertain of."""
    incorrect: Share = 0.0
    """Score of a step that the judge calls incorrect."""
    boundary: Literal["blank-lines", "markers"] = "blank-lines"
    """What separates steps: blank lines (lines where there are none), or `Step 1:` and the like where there are any."""
    measure: bool = False
    """Also have a model judge held-out completions, which only logs; the exact judge always does."""

    @property
    def on(self) -> bool:
        """Whether anyone is asked."""
        return self.strategy != "none"


class RewardConfig(Section):
    format: TermConfig = TermConfig(weight=0.2)
    """1 for exactly one code block, closed; 0.5 for a closed one that is not alone; 0 for an unclosed one or none.
    AIME: 1 for one closed box in the last step of a finished answer, in a chain after every step; else 0."""
    outcome: TermConfig = TermConfig(weight=1.0)
    """AIME: 1 when the answer in the box is right."""
    steps: StepsConfig = StepsConfig()
    """AIME: how steps are judged; score - 1 is the token-level signal of a step, weighted by method.local_weight."""
    clean_lines: TermConfig = TermConfig(weight=0.3)
    """Share of code lines before the first compile error, halved when the block is not closed; 1 when it compiles."""
    compile: TermConfig = TermConfig(weight=1.0)
    """1 when esbuild builds the component."""
    lint: TermConfig = TermConfig(weight=0.3)
    """1 for no ESLint finding, falling with each error and warning; 0 when it does not parse."""
    content: TermConfig = TermConfig(weight=0.0)
    """Share of what the brief asks for that stands in the compiled source."""
    code_judge: CodeJudgeConfig = CodeJudgeConfig()
    """A judge's score of the source: validity, task accomplishment and aesthetic intent."""
    vlm: VlmConfig = VlmConfig()
    """A judge's score of the screenshot, for code that compiles."""
    local: LocalConfig = LocalConfig()
    """Penalties of lines, the token-level signal; each in [0, 1]."""
    spread: SpreadConfig = SpreadConfig()
    """The spatial decay of the penalties over nearby lines."""
