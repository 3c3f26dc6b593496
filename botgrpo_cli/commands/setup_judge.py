"""`botgrpo setup judge`: what judging needs, what a server can do, and what a run would ask of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rich.console import Console

from botgrpo_cli.console import console, progress_console
from botgrpo_cli.errors import InputError
from botgrpo_cli.judges.settings import KEY_VARIABLE, MODEL_VARIABLE, ONLINE, URL_VARIABLE, Settings, resolve
from botgrpo_cli.judges.simulate import SIMULATED
from botgrpo_cli.recipe.schema import JudgeConfig, PriceConfig, Recipe

if TYPE_CHECKING:
    from botgrpo_cli.judges.base import Judge, Reply
    from botgrpo_cli.tasks.base import Task

OFFLINE = """\
No judge is set up, and none is needed: runs use the offline heuristic judge. It scores source and page by fixed
rules: what was asked for is there, controls do something, contrast, filled area, alignment. That is no opinion of
quality; every record and figure made with it says heuristic.

A model that judges runs behind any server with OpenAI's chat completions. Screenshots need a model that sees. Start
one of these, for example:

  vLLM        vllm serve Qwen/Qwen2.5-VL-7B-Instruct --port 8000
  llama.cpp   llama-server -m MODEL.gguf --mmproj MMPROJ.gguf --port 8000
  Ollama      OLLAMA_HOST=localhost:8000 ollama serve, and in another terminal ollama pull qwen2.5vl:7b

Say where it is, in the shell that trains (a key only where the server wants one; it is read from there alone):

  export {url}=http://localhost:8000/v1
  export {model}=Qwen/Qwen2.5-VL-7B-Instruct
  export {key}=...
  botgrpo setup judge --recipe react_qwen

Amazon Bedrock: pip install 'botgrpo[bedrock]', AWS credentials and region in the environment, and a recipe with
judge.kind bedrock and judge.model."""

RUNGS = {
    "json_schema": "the server enforces JSON schemas",
    "json_object": "the server enforces JSON, but no schema; the schema stands in the prompt",
    "prompt": "the server enforces nothing; replies are only asked to be JSON, and more will be malformed",
}


def setup_judge(recipe: Recipe | None) -> None:
    """Checks the judge of `recipe` or of the environment. Raises InputError when it cannot be used."""
    out = console()
    config = judge_to_check(recipe)
    if config is None:
        text = OFFLINE.format(url=URL_VARIABLE, model=MODEL_VARIABLE, key=KEY_VARIABLE)
        out.print(text, soft_wrap=True, markup=False)
        if recipe is not None:
            out.print()
            print_estimate(out, recipe, None, recipe.judge.prices)
        return
    from botgrpo_cli.judges.client import make_judge
    from botgrpo_cli.tasks.registry import DEFAULT, find_task, task_of

    settings = with_model(config)
    with progress_console().status("Asking the judge.") as status:
        # Without the cache: the point is to see the server answer.
        judge = make_judge(config.model_copy(update={"cache": False}), say=status.update)
        assert judge is not None
        try:
            print_probe(out, judge, settings)
            reply = print_sample(out, judge, task_of(recipe) if recipe else find_task(DEFAULT)[0])
        finally:
            judge.close()
    if recipe is not None:
        print_estimate(out, recipe, reply, config.prices)
        if recipe.judge.kind not in ONLINE:
            line(out, "note", f"the recipe says judge.kind {recipe.judge.kind}; add --set judge.kind=openai to train")


def judge_to_check(recipe: Recipe | None) -> JudgeConfig | None:
    """The recipe's own judge when it is a model, else the server that the environment names; None without one."""
    if recipe is not None and recipe.judge.kind in ONLINE:
        return recipe.judge
    if not os.environ.get(URL_VARIABLE):
        return None
    own = recipe.judge if recipe is not None else JudgeConfig()
    return own.model_copy(update={"kind": "openai", **dict.fromkeys(SIMULATED, 0.0)})


def with_model(config: JudgeConfig) -> Settings:
    """The settings; when only the model is missing, the error names those that the server has."""
    from botgrpo_cli.judges.connect import open_transport

    try:
        return resolve(config)
    except InputError as error:
        if config.kind != "openai" or config.model or os.environ.get(MODEL_VARIABLE):
            raise
        transport = open_transport(resolve(config.model_copy(update={"model": "?"})), config)
        there = transport.models()
        transport.close()
        if not there:
            raise
        raise InputError(f"{error} The models there: {', '.join(there[:10])}.") from None


def print_probe(out: Console, judge: Judge, settings: Settings) -> None:
    found = judge.describe()
    served = f", which it calls {found['served_model']}" if found["served_model"] not in (None, found["model"]) else ""
    line(out, "server", f"{found['host']}, {found['kind']}")
    line(out, "model", f"{found['model']}{served}")
    if settings.kind == "openai":
        line(out, "key", f"from {settings.key_from}" if settings.key_from else "none is set")
    line(out, "replies", f"{found['structured_output']}: {RUNGS[found['structured_output']]}")
    line(out, "images", f"{'seen' if found['sees_images'] else 'not seen'}: {found['images']}")
    if not found["reports_tokens"]:
        line(out, "tokens", "not reported by the server, so the cost of a run stays unknown")


def print_sample(out: Console, judge: Judge, task: type[Task]) -> Reply:
    """One call, as the recipe's task makes it."""
    reply, says = task.sample(judge)
    if says:
        line(out, "sample", says)
    else:
        line(out, "sample", f"{reply.outcome}: {' '.join(reply.text.split())[:300]}")
    took = f"{reply.seconds:.2f} s"
    if reply.prompt_tokens is not None and reply.completion_tokens is not None:
        took += f", {reply.prompt_tokens:,} prompt tokens, {reply.completion_tokens:,} written"
    line(out, "", took)
    return reply


def print_estimate(out: Console, recipe: Recipe, sample: Reply | None, prices: PriceConfig) -> None:
    """Calls of a run; tokens and cost too when a sample shows what a call takes."""
    from botgrpo_cli.judges.cost import Tokens
    from botgrpo_cli.judges.estimate import estimate_calls

    found = estimate_calls(recipe)
    run = f"{recipe.name} at scale {recipe.scale}"
    if not found.per_completion:
        line(out, "a run", f"{run} asks no judge: reward.code_judge.weight is 0 and reward.vlm.mode is none")
        return
    each = ", ".join(f"{count} for {name}" for name, count in found.each.items())
    line(out, "a run", f"{run}: at most {found.total:,} calls")
    s, steps = recipe.sampling, recipe.training.steps
    line(
        out,
        "",
        f"training {s.prompts} prompts x {s.group_size} x {steps} steps x {found.per_completion} ({each}) = "
        f"{found.training:,}",
    )
    line(out, "", f"evaluations {found.evaluated:,} completions x {found.per_completion} = {found.evaluation:,}")
    pairs = recipe.evaluation.prompts
    line(
        out, "win rate", f"of two runs: {found.per_pair} calls a pair (A-B, B-A, B-A, A-B), {found.per_pair * pairs:,}"
    )
    if sample is None or sample.prompt_tokens is None or sample.completion_tokens is None:
        return
    # The sample's component is short; a run's answers are at most as long as the policy may write.
    tokens = Tokens()
    tokens.add(
        found.total * (sample.prompt_tokens + recipe.sampling.max_new_tokens), found.total * sample.completion_tokens
    )
    line(out, "tokens", f"about {tokens.prompt:,} prompt tokens and {tokens.completion:,} written, with full answers")
    cost = tokens.cost(prices)
    told = f"about {cost:,.2f} at judge.prices" if cost is not None else "unknown; set judge.prices.input and .output"
    line(out, "cost", told)


def line(out: Console, label: str, text: str) -> None:
    out.print(f"{label:<9}{text}", soft_wrap=True, markup=False)
