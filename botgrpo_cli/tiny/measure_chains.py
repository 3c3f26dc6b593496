"""Measures a starting policy on held-out chains with the exact verifier; the figures of its card."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from botgrpo_cli.rewards.steps import split_steps, step_texts
from botgrpo_cli.tiny import chains
from botgrpo_cli.tiny.measure import complete

LIMIT = 256  # tokens of a completion
SAMPLES = 4  # completions a problem when sampled

ROWS = (
    ("completions", "samples", "{:.0f}"),
    ("solved", "solved", "{:.1%}"),
    ("steps right", "steps_right", "{:.1%}"),
    ("steps right, given what was written before", "steps_right_alone", "{:.1%}"),
    ("one step for each operation, one closed box", "complete", "{:.1%}"),
    ("finished within 256 tokens", "finished_rate", "{:.1%}"),
    ("tokens, median", "tokens", "{:.0f}"),
    ("steps, median", "steps", "{:.0f}"),
)


@dataclass(frozen=True)
class MeasuredChains:
    """Rates in [0, 1] over completions, those of steps over steps; tokens are medians, end token included."""

    samples: int
    solved: float
    steps_right: float  # operations of the problems that are written right, from the true value on
    steps_right_alone: float  # written steps that are right given the result of the step before; without the closing
    complete: float
    finished_rate: float
    tokens: float
    steps: float


def measure(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, *, temperature: float) -> MeasuredChains:
    """`SAMPLES` completions of each held-out problem; one where temperature is 0, greedy."""
    return measure_on(model, tokenizer, chains.tasks("held-out"), temperature=temperature)


def measure_on(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, tasks: tuple[chains.Task, ...], *, temperature: float
) -> MeasuredChains:
    tasks = tasks * (SAMPLES if temperature else 1)
    answers = complete(model, tokenizer, [task.prompt for task in tasks], temperature=temperature, limit=LIMIT)
    texts = tokenizer.batch_decode(answers, skip_special_tokens=True)
    checked = [chains.check(task.chain, text) for task, text in zip(tasks, texts, strict=True)]
    alone = [verdict == "correct" for task, text in zip(tasks, texts, strict=True) for verdict in _alone(task, text)]
    ends = (tokenizer.eos_token_id, tokenizer.pad_token_id)
    return MeasuredChains(
        samples=len(answers),
        solved=fmean(each.solved for each in checked),
        steps_right=sum(each.right for each in checked) / sum(len(task.chain.operations) for task in tasks),
        steps_right_alone=fmean(alone) if alone else float("nan"),
        complete=fmean(each.complete for each in checked),
        finished_rate=fmean(ids[-1] in ends for ids in answers),
        tokens=median(len(ids) for ids in answers),
        steps=median(len(each.verdicts) for each in checked),
    )


def _alone(task: chains.Task, text: str) -> list[str]:
    """The verdicts of the steps before the closing, each from the result that the step before has written."""
    data = text.encode("utf-8", "replace")
    texts = step_texts([data], split_steps(data))
    verdicts = chains.verify(task.chain, texts, against="written")
    return [verdict for verdict, step in zip(verdicts, texts, strict=True) if not step.startswith("The")]
