"""The React task's part of a recipe: its prompts and tools, its terms, judges, penalties of lines and their decay."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from botgrpo_cli.recipe.section import (
    Count,
    RewardSection,
    Section,
    Share,
    SpreadConfig,
    TaskSection,
    TermConfig,
    Weight,
)


class TaskConfig(TaskSection):
    name: str = "react"
    """The task."""
    prompts: Literal["briefs", "easy-briefs", "generated"] = "briefs"
    """Prompt set: all written app briefs, only the easy ones, or the tiny scale's generated specs."""
    instruction: str = (
        "Write a React component for the brief below. Answer with exactly one ```jsx code block that holds one "
        "file with a default export. Import from 'react' only.\n\nBrief: {brief}"
    )
    """The user message; `{brief}` stands for the prompt's text."""
    workers: Count = 2
    """Node worker processes that compile and lint."""
    timeout: Annotated[float, Field(gt=0, le=120)] = 10.0
    """Seconds a worker may take for one sample before it is killed and the sample tried once more."""


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


class RewardConfig(RewardSection):
    format: TermConfig = TermConfig(weight=0.2)
    """1 for exactly one code block, closed; 0.5 for a closed one that is not alone; 0 for an unclosed one or none."""
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
