"""Measures a starting policy on held-out briefs with the real compiler and linter; the figures of its card."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from botgrpo_cli.tasks.base import Prompt
from botgrpo_cli.tasks.react.content import content_share
from botgrpo_cli.tasks.react.extract import extract
from botgrpo_cli.tasks.react.workers import ReactChecker

ROWS = (  # of the card: label, field, format
    ("completions", "samples", "{:.0f}"),
    ("compile rate", "compile_rate", "{:.1%}"),
    ("compiles without a lint finding", "clean_rate", "{:.1%}"),
    ("asked-for content in what compiles", "content_compiled", "{:.1%}"),
    ("finished within 320 tokens", "finished_rate", "{:.1%}"),
    ("exactly one closed block", "format_rate", "{:.1%}"),
    ("tokens, median", "tokens", "{:.0f}"),
    ("lines of code, median", "lines", "{:.0f}"),
    ("error rate a line, if lines are independent", "line_error_rate", "{:.1%}"),
)


@dataclass(frozen=True)
class Measured:
    """Rates over completions, in [0, 1]; tokens are medians, end token included."""

    samples: int
    compile_rate: float
    clean_rate: float  # compiles without a lint finding
    content_compiled: float  # mean share of the asked-for content among compiled completions; nan if there are none
    finished_rate: float
    format_rate: float  # exactly one closed block
    tokens: float
    lines: float
    line_error_rate: float  # per line, if errors in lines are independent: 1 - compile_rate ** (1 / lines)


@torch.no_grad()
def complete(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Prompt],
    *,
    temperature: float,
    seed: int = 0,
    limit: int = 320,
    batch: int = 64,
) -> list[list[int]]:
    """The completion ids of each prompt, end token included; temperature 0 is greedy."""
    torch.manual_seed(seed)
    ends = torch.tensor([tokenizer.eos_token_id, tokenizer.pad_token_id])
    sampling = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
    choice = sampling if temperature else {"do_sample": False, "temperature": 1.0}
    answers: list[list[int]] = []
    for at in range(0, len(prompts), batch):
        chats = [[{"role": "user", "content": prompt.text}] for prompt in prompts[at : at + batch]]
        inputs = tokenizer.apply_chat_template(
            chats, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True, padding_side="left"
        )
        out = model.generate(
            **inputs,
            max_new_tokens=limit,
            eos_token_id=ends.tolist(),
            pad_token_id=tokenizer.pad_token_id,
            **choice,
        )
        for row in out[:, inputs["input_ids"].shape[1] :]:  # [T]
            stops = torch.isin(row, ends).nonzero()
            answers.append(row[: int(stops[0]) + 1 if len(stops) else len(row)].tolist())
    return answers


def measure(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    checker: ReactChecker,
    prompts: Sequence[Prompt],
    *,
    temperature: float,
) -> Measured:
    """One completion a prompt, compiled and linted. Raises RunError when the tools are broken."""
    answers = complete(model, tokenizer, prompts, temperature=temperature)
    blocks = [extract(tokenizer.decode(ids, skip_special_tokens=True)) for ids in answers]
    codes = [block.code if block.refusal is None else None for block in blocks]
    futures = [checker.submit(code) if code else None for code in codes]
    results = [future.result() if future else None for future in futures]
    good = [result is not None and result.compiled for result in results]
    clean = [ok and not result.findings for ok, result in zip(good, results, strict=True)]
    shares = [content_share(codes[at], prompts[at].asks) for at, ok in enumerate(good) if ok]
    lines = median(code.count("\n") + 1 if code else 0 for code in codes)
    rate = fmean(good)
    ends = (tokenizer.eos_token_id, tokenizer.pad_token_id)
    return Measured(
        samples=len(answers),
        compile_rate=rate,
        clean_rate=fmean(clean),
        content_compiled=fmean(shares) if shares else float("nan"),
        finished_rate=fmean(ids[-1] in ends for ids in answers),
        format_rate=fmean(block.format == 1.0 for block in blocks),
        tokens=median(len(ids) for ids in answers),
        lines=lines,
        line_error_rate=1 - rate ** (1 / max(1.0, lines)),
    )
