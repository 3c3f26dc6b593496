"""verl itself, in an environment of its own: BOTGRPO_VERL_PYTHON names the Python of one that has verl 0.9.

verl and this package ask for different versions of transformers, so no environment holds both as pip sees it. To make
one, about two minutes (the last line runs these tests):

    python -m venv verlenv && verlenv/bin/pip install torch numpy && verlenv/bin/pip install --no-deps verl==0.9.1
    verlenv/bin/pip install 'transformers>=5.5.3,<5.11,!=5.6.0' 'tensordict>=0.8,<=0.10,!=0.9.0' 'ray>=2.41' \
        hydra-core codetiming dill datasets pandas peft accelerate torchdata pybind11 aiohttp cachetools \
        TransferQueue pyzmq msgspec fastapi uvicorn filelock psutil pydantic pyyaml rich
    BOTGRPO_VERL_PYTHON=verlenv/bin/python pytest tests/integrations/test_verl_real.py
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from botgrpo_cli.app import main
from botgrpo_cli.methods.registry import resolve
from botgrpo_cli.policy.sample import Rollout
from botgrpo_cli.recipe.load import load_recipe
from botgrpo_cli.rewards.spans import TokenBytes
from botgrpo_cli.tasks.base import Completion
from botgrpo_cli.tasks.registry import make_task
from botgrpo_cli.tiny import weights_folder
from botgrpo_cli.training.refill import rewards_of
from botgrpo_cli.training.rollouts import Batch

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("verl_program.py")
PYTHON = os.environ.get("BOTGRPO_VERL_PYTHON") or (sys.executable if importlib.util.find_spec("verl") else None)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PYTHON is None, reason="verl is not installed; see the top of this file to run these tests"),
]

GOOD = "```jsx\nexport default function App() {\n  return (\n    <div>hello</div>\n  );\n}\n```"
TINY = ["--scale", "tiny"]


def environment() -> dict[str, str]:
    found = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HYDRA_FULL_ERROR": "1"}
    return {**found, "VERL_USE_EXTERNAL_MODULES": "botgrpo_cli.integrations.verl", "PYTHON": str(PYTHON)}


def call(*words, cwd) -> str:
    command = [str(word) for word in words]
    done = subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
    return done.stdout


def export(folder, *words) -> Path:
    with pytest.raises(SystemExit) as stop:
        main(["export", "verl", "react_qwen", str(folder), *words])
    assert stop.value.code == 0
    return folder


def test_verl_finds_the_estimators_the_reward_manager_and_the_agent_loop(tmp_path):
    call(PYTHON, PROGRAM, "registry", cwd=tmp_path)


def test_verl_accepts_the_settings_of_every_method_and_computes_our_loss_from_them(tmp_path):
    folders = [export(tmp_path / method, *TINY, "--method", method) for method in ("grpo", "gspo", "dapo", "dr-grpo")]
    folders.append(export(tmp_path / "with a KL", *TINY, "--set", "training.kl=0.05"))
    said = call(PYTHON, PROGRAM, "settings", *folders, cwd=tmp_path)
    assert said.count("as it should be") == 5


@pytest.fixture(scope="module")
def tokenizer():
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(weights_folder("react-qwen2"))


def write_answers(tokenizer, limit) -> list[list[list[int]]]:
    """Two prompts, four answers each: good ones, a broken one, one without code, one cut at the limit."""

    def ids(text):
        return [*tokenizer(text, add_special_tokens=False).input_ids, tokenizer.eos_token_id]

    good, broken, none, cut = ids(GOOD), ids(GOOD.replace("</div>", "</dv>")), ids("no code"), ids(GOOD * 40)[:limit]
    assert len(cut) == limit
    return [[good, broken, none, cut], [broken, good, good, none]]


def native(recipe, tokenizer, split, answers):
    """(token rewards, advantages, scored) of the same ids, in the order of the answers, without verl."""
    task, table = make_task(recipe), TokenBytes(tokenizer)
    limit, rows = recipe.sampling.max_new_tokens, []
    try:
        prompts = {prompt.id: prompt for prompt in task.prompts(split)}
        for prompt_id, ids in answers:
            finished = len(ids) < limit
            scored = task.submit(Completion(prompts[prompt_id], table.pieces(ids), finished)).result()
            rows.append((prompts[prompt_id], Rollout(0, ids, [], finished), scored))
    finally:
        task.close()
    group = torch.tensor([list(prompts).index(prompt.id) for prompt, _, _ in rows])
    asked, rollouts, scored = (list(column) for column in zip(*rows, strict=True))
    batch = Batch(asked, [[] for _ in rows], rollouts, scored, group, 0.0, 0.0)
    method = resolve(recipe.method)
    rewards = rewards_of(batch, method, recipe)
    return rewards.tokens, rewards.advantages(method), scored


def test_rollouts_through_verls_workers_get_the_rewards_and_advantages_of_a_native_run(tmp_path, tokenizer):
    folder = export(tmp_path / "a folder", *TINY)
    # The launch line itself, with Hydra's flag that only prints what verl would start with.
    composed, answers, out = tmp_path / "composed.yaml", tmp_path / "answers.json", tmp_path / "out.json"
    composed.write_text(call(folder / "launch.sh", "--cfg", "job", "--resolve", "trainer.nnodes=1", cwd=tmp_path))
    recipe = load_recipe(str(folder / "recipe.yaml")).recipe
    answers.write_text(json.dumps(write_answers(tokenizer, recipe.sampling.max_new_tokens)))
    call(PYTHON, PROGRAM, "chain", composed, answers, out, cwd=tmp_path)
    found = json.loads(out.read_text())

    train = found["train"]
    pairs = list(zip(train["prompt_id"], train["responses"], strict=True))
    tokens, advantages, scored = native(recipe, tokenizer, "train", pairs)
    assert len(pairs) == 8
    assert len(set(train["uid"])) == len(set(train["prompt_id"])) == 2
    for k, (_, ids) in enumerate(pairs):
        rewards, wanted, info = tokens[k, : len(ids)], advantages[k, : len(ids)], train["info"][k]
        torch.testing.assert_close(torch.tensor(train["rm_scores"][k]).double(), rewards, rtol=1e-6, atol=0)
        torch.testing.assert_close(torch.tensor(train["advantages"][k]), wanted, rtol=1e-4, atol=1e-5)
        assert "token_rewards" not in info
        assert info["compile_rate"] == scored[k].metrics["compile_rate"]
        assert math.isclose(info["mean_token_reward"], rewards.mean())
    assert any(len(set(row)) > 1 for row in train["advantages"])  # not one number a rollout

    held_out = found["val"]  # one number a rollout, its global reward, as verl has it
    pairs = list(zip(held_out["prompt_id"], held_out["responses"], strict=True))
    _, _, scored = native(recipe, tokenizer, "held-out", pairs)
    for row, said in zip(held_out["rm_scores"], scored, strict=True):
        assert math.isclose(sum(row), said.reward, rel_tol=1e-6)
        assert not any(row[:-1])
