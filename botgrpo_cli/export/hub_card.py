"""The model card of a trained policy: metadata, how to load it, what was trained, the figures, the licence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from huggingface_hub import ModelCard, ModelCardData

from botgrpo_cli.export.base_model import BaseModel
from botgrpo_cli.methods.registry import METHODS
from botgrpo_cli.metrics import in_words, shown
from botgrpo_cli.recipe.schema import Recipe

if TYPE_CHECKING:
    import pandas as pd

PROJECT = "botgrpo"

TEXT = """# {name}

{base} after {steps} of reinforcement learning on the task `{task}` with the method `{method}` of botgrpo, whose
rewards say which tokens of an answer were good. It was trained and measured on this task alone.

## How to load it

```python
{code}
```

## What was measured

{measured}

## What was trained

{trained}

`recipe.yaml` is the whole recipe: `botgrpo train recipe.yaml` runs it again, where its model and its data are.

{honest}

## Licence

{licence}
"""

PLAIN = """{imports}
{load}
tokenizer = AutoTokenizer.from_pretrained("{repo}")
{prompt}
output = model.generate(**inputs, max_new_tokens={tokens}, do_sample=True, temperature={temperature:g})
print(tokenizer.decode(output[0, inputs["input_ids"].shape[1]:], skip_special_tokens=True))"""

CHAT = """chat = [{"role": "user", "content": "Your prompt, in the wording of recipe.yaml."}]
inputs = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=True, return_tensors="pt")"""

NO_CHAT = 'inputs = tokenizer("Your prompt, in the wording of recipe.yaml.\\n", return_tensors="pt")'


def make_card(
    repo: str,
    base: BaseModel,
    recipe: Recipe,
    manifest: Mapping[str, Any],
    held_out: pd.DataFrame,
    *,
    step: int,
    headline: str,
    figure: bool,
    chat: bool,
) -> ModelCard:
    """`held_out` has the held-out rows of metrics.csv up to `step`; `figure`: figure.png lies beside the card; `chat`:
    the tokenizer has a chat template."""
    task = str(manifest.get("task", recipe.task.name))
    data = ModelCardData(
        base_model=base.hub,
        base_model_relation=("adapter" if recipe.policy.lora else "finetune") if base.hub else None,
        library_name="peft" if recipe.policy.lora else "transformers",
        pipeline_tag="text-generation",
        tags=[PROJECT, "grpo", recipe.method.name, *(["lora"] if recipe.policy.lora else [])],
        **licence_fields(base),
    )
    text = TEXT.format(
        name=repo.partition("/")[2],
        base=base.words,
        steps="1 step" if step == 1 else f"{step} steps",
        task=task,
        method=recipe.method.name,
        code=snippet(repo, base, recipe, chat=chat),
        measured=measured(held_out, headline, figure=figure),
        trained=table(("", ""), facts(base, recipe, manifest, step)),
        honest=honest(base, manifest, lora=recipe.policy.lora is not None),
        licence=licence_sentence(base),
    )
    return ModelCard(f"---\n{data.to_yaml()}\n---\n\n{text}")


def snippet(repo: str, base: BaseModel, recipe: Recipe, *, chat: bool) -> str:
    """Python that loads the model from the hub and asks it something."""
    imports, load = [], f'model = AutoModelForCausalLM.from_pretrained("{repo}")'
    if recipe.policy.lora:
        imports = ["from peft import PeftModel"]
        if base.hub is None and base.name.startswith("tiny:"):
            imports.insert(0, "from botgrpo_cli.tiny import weights_folder")
        load = (
            f"base = AutoModelForCausalLM.from_pretrained({base.code})\n"
            f'model = PeftModel.from_pretrained(base, "{repo}")'
        )
    imports.append("from transformers import AutoModelForCausalLM, AutoTokenizer\n")
    evaluation = recipe.evaluation
    return PLAIN.format(
        imports="\n".join(imports),
        load=load,
        repo=repo,
        prompt=CHAT if chat else NO_CHAT,
        tokens=evaluation.max_new_tokens or recipe.sampling.max_new_tokens,
        temperature=evaluation.temperature,
    )


def measured(held_out: pd.DataFrame, headline: str, *, figure: bool) -> str:
    """The figure, and every held-out metric at the first and the last evaluation."""
    if held_out.empty:
        return "The run has no evaluations."
    steps = sorted({int(held_out["step"].min()), int(held_out["step"].max())})
    values = held_out.drop_duplicates(["step", "metric"], keep="last").set_index(["metric", "step"])["value"]
    names = list(dict.fromkeys(held_out["metric"]))
    order = sorted((name for name in names if name != "prompts"), key=lambda name: name != headline)  # stable
    rows = []
    for name in order:
        cells = [values.get((name, step), float("nan")) for step in steps]
        rows.append((in_words(name), *("–" if cell != cell else shown(name, cell) for cell in cells)))
    count = values.get(("prompts", steps[-1]))
    size = f"{count:.0f} held-out prompts" if count is not None else "Held-out prompts"
    picture = f"![Held-out {in_words(headline)} over training steps](figure.png)\n\n" if figure else ""
    header = ["", *(f"step {step}" for step in steps)]
    return f"{picture}{size}, the same ones at every evaluation:\n\n{table(header, rows)}"


def facts(base: BaseModel, recipe: Recipe, manifest: Mapping[str, Any], step: int) -> list[tuple[str, str]]:
    """What the run's manifest and recipe say of it."""
    method, lora, training = METHODS[recipe.method.name], recipe.policy.lora, recipe.training
    sampling, machine, software = recipe.sampling, manifest["hardware"], manifest["software"]
    parameters = manifest["policy"]["trainable_parameters"]
    own = recipe.method.model_dump(exclude={"name", "local_weight"}, exclude_none=True)
    changed = "".join(f"; here with {key} {value}" for key, value in own.items())
    how = f"LoRA, rank {lora.rank}, alpha {lora.alpha:g}" if lora else "every weight"
    gpus = ", ".join(f"{count} x {name}" for name, count in Counter(gpu["name"] for gpu in machine["gpus"]).items())
    versions = ", ".join(f"{name} {version}" for name, version in software.items() if version)
    minutes = float(manifest.get("wall_seconds", 0.0)) / 60
    return [
        ("base model", f"`{base.name}`"),
        ("recipe", f"`{recipe.name}` at scale `{recipe.scale}`"),
        ("method", f"`{method.name}` ({method.paper}): {method.formula}{changed}".replace("|", "\\|")),
        ("steps", f"{step} of {training.steps}, {sampling.prompts} prompts x {sampling.group_size} rollouts each"),
        ("learning rate", f"{training.learning_rate:g}"),
        ("trained", f"{parameters:,} parameters ({how})"),
        ("seed", str(training.seed)),
        ("engine", str(manifest.get("engine", "native"))),
        ("hardware", f"{gpus or machine['cpu']}, {manifest.get('processes', 1)} process(es)"),
        ("time", f"{minutes:.0f} minutes" if minutes >= 1 else "under a minute"),
        ("software", versions),
    ]


def honest(base: BaseModel, manifest: Mapping[str, Any], *, lora: bool) -> str:
    """What the figures are no real measurement of."""
    said = []
    for key, words in (("heuristic", "Scored by fixed rules, not by a model or a person"), ("simulated", "Simulated")):
        if found := manifest.get(key):
            said.append(f"{words}: {', '.join(f'`{name}`' for name in found)}.")
    if not said:
        said.append("Nothing of the rewards and figures above was heuristic or simulated.")
    if base.caution:
        more = " On the original weights this adapter computes something slightly different." if lora else ""
        said.append(base.caution + more)
    return "\n\n".join(said)


def licence_fields(base: BaseModel) -> dict[str, str | None]:
    """For ModelCardData: the licence of the starting model holds for what was made of it."""
    if base.licence is None:
        return {"license": "other", "license_name": "unknown"}
    found = base.licence
    link = "LICENSE" if found.file is not None and found.licence == "other" else found.link
    return {"license": found.licence, "license_name": found.name, "license_link": link}


def licence_sentence(base: BaseModel) -> str:
    if base.licence is None:
        return (
            f"That of the starting model `{base.name}` holds for this one. It was not known where this card was "
            "written: fill in `license` at the top, and this section, before anybody uses it."
        )
    found = base.licence
    name = found.name or found.licence
    where = f" ([text]({found.link}))" if found.link and found.link.startswith("http") else ""
    return f"`{name}`{where}, that of the starting model `{base.name}`."


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
