"""`botgrpo export merged`: another process that knows only transformers loads it and computes the same."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

from botgrpo_cli.app import main
from botgrpo_cli.methods.registry import resolve
from botgrpo_cli.policy.decode import choose_decoder
from botgrpo_cli.policy.load import load_policy
from botgrpo_cli.recipe.schema import LoraConfig, PolicyConfig
from botgrpo_cli.training.plan import make_plan
from botgrpo_cli.training.run import Prepared, start
from tests.conftest import make_policy
from tests.training.toy import LetterTask, Log, make_recipe

LORA = LoraConfig(rank=4, alpha=8)

# What a stranger does with the folder: no module of this package, the logits of a chat, what ends a turn.
STRANGER = """
import json, sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
folder, out = sys.argv[1:]
model, tokenizer = AutoModelForCausalLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
chat = [{"role": "user", "content": "say a"}]
ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
with torch.no_grad():
    logits = model(torch.tensor([ids])).logits.float()
facts = {
    "ids": ids, "logits": logits[0].tolist(), "eos": model.generation_config.eos_token_id, "dtype": str(model.dtype),
    "ours": sorted(name for name in sys.modules if name.startswith(("botgrpo", "peft"))),
}
json.dump(facts, open(out, "w"))
"""


def read_elsewhere(folder, tmp_path) -> dict:
    out = tmp_path / "facts.json"
    command = [sys.executable, "-c", STRANGER, str(folder), str(out)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text())


def train(tmp_path, lora, *, base_dtype=torch.float32, steps=2):
    """A short run in `tmp/run`; returns its policy as it is in memory, adapters in place."""
    base = make_policy()
    base.model.to(base_dtype).save_pretrained(tmp_path / "base")
    base.tokenizer.save_pretrained(tmp_path / "base")
    policy = PolicyConfig(model=str(tmp_path / "base"), dtype="float32", device="cpu", lora=lora)
    recipe = make_recipe(training__learning_rate=1e-2).model_copy(update={"policy": policy})
    loaded = load_policy(recipe.policy)
    plan = make_plan(recipe, loaded, prompt_tokens=20)
    parts = (recipe, loaded, choose_decoder(loaded), LetterTask(), resolve(recipe.method), plan, tmp_path / "run")
    trainer = start(Prepared(*parts), Log())
    for _ in range(steps):
        trainer.train_step()
    trainer.save()
    return trainer.policy


def export(*words) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["export", "merged", *map(str, words)])
    return stop.value.code


@torch.no_grad()
def logits(policy, ids) -> torch.Tensor:
    return policy.model(torch.tensor([ids])).logits[0].float()  # [T, V]


@pytest.mark.slow
@pytest.mark.parametrize("lora", [None, LORA], ids=["every-weight", "lora"])
def test_a_process_without_this_package_computes_the_same(tmp_path, lora):
    trained = train(tmp_path, lora)
    assert export(tmp_path / "run", tmp_path / "out") == 0
    found = read_elsewhere(tmp_path / "out", tmp_path)
    assert found["ours"] == []
    assert found["ids"] == trained.encode("say a")
    assert found["eos"] == [0, 2]
    assert found["dtype"] == "torch.float32"
    torch.testing.assert_close(torch.tensor(found["logits"]), logits(trained, found["ids"]), rtol=0, atol=1e-4)
    start_policy = load_policy(PolicyConfig(model=str(tmp_path / "base"), dtype="float32", device="cpu"))
    assert (logits(start_policy, found["ids"]) - torch.tensor(found["logits"])).abs().max() > 1e-2


@pytest.mark.slow
def test_the_files_keep_the_format_of_the_starting_model_unless_told_otherwise(tmp_path):
    trained = train(tmp_path, LORA, base_dtype=torch.bfloat16)
    assert export(tmp_path / "run", tmp_path / "auto") == 0
    found = read_elsewhere(tmp_path / "auto", tmp_path)
    assert found["dtype"] == "torch.bfloat16"
    assert export(tmp_path / "run" / "checkpoints" / "step-2", tmp_path / "whole", "--dtype", "float32") == 0
    found = read_elsewhere(tmp_path / "whole", tmp_path)
    assert found["dtype"] == "torch.float32"
    torch.testing.assert_close(torch.tensor(found["logits"]), logits(trained, found["ids"]), rtol=0, atol=1e-4)


def test_no_path_of_this_machine_is_in_the_folder(tmp_path):
    train(tmp_path, LORA, steps=1)
    assert export(tmp_path / "run", tmp_path / "out") == 0
    for path in (tmp_path / "out").iterdir():
        assert str(tmp_path).encode() not in path.read_bytes(), path.name


def test_a_taken_folder_is_left_as_it_is(tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "note").write_text("mine")
    assert export(tmp_path / "run", tmp_path / "out") == 2  # said before anything is loaded: there is no run yet
    assert "holds something already" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["note"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("tiny:react-qwen2",), "is no run"),
        (("empty",), "is no run"),
        (("run",), "no complete checkpoint"),
        (("run", "--dtype", "bf16"), "expected auto, float32"),
    ],
)
def test_what_is_no_run_is_refused(tmp_path, monkeypatch, capsys, words, says):
    monkeypatch.chdir(tmp_path)
    train(tmp_path, LORA, steps=1)
    (tmp_path / "run" / "checkpoints" / "step-1" / "trainer.json").unlink()
    assert export(words[0], "out", *words[1:]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_disk_that_fails_leaves_nothing(tmp_path, monkeypatch, capsys):
    train(tmp_path, LORA, steps=1)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr("transformers.PreTrainedTokenizerFast.save_pretrained", full_disk)
    assert export(tmp_path / "run", tmp_path / "elsewhere" / "out") == 1
    assert "No space left" in capsys.readouterr().err
    assert list((tmp_path / "elsewhere").iterdir()) == []


def full_disk(*_, **__):
    raise OSError(28, "No space left on device")
