"""Going on from a saved adapter: what is loaded, what is refused, and a run that starts from one."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

from botgrpo_cli.errors import InputError
from botgrpo_cli.methods.registry import resolve
from botgrpo_cli.policy.decode import choose_decoder
from botgrpo_cli.policy.load import load_policy
from botgrpo_cli.recipe.schema import LoraConfig, PolicyConfig
from botgrpo_cli.records.read import read_metrics
from botgrpo_cli.training.checkpoint import list_checkpoints
from botgrpo_cli.training.evaluate import find_subject, load_subject
from botgrpo_cli.training.plan import make_plan
from botgrpo_cli.training.run import Prepared, resume, start
from tests.conftest import make_policy
from tests.training.toy import LetterTask, Log, make_recipe

IDS = torch.tensor([[5, 9, 30, 7, 12]])  # [1, T]


@pytest.fixture
def base(tmp_path):
    """A whole model in `tmp/base`, and an adapter on it, far from zero, in `tmp/adapter`."""
    policy = make_policy()
    policy.model.save_pretrained(tmp_path / "base")
    policy.tokenizer.save_pretrained(tmp_path / "base")
    make_policy(lora=True).model.save_pretrained(tmp_path / "adapter", save_embedding_layers=False)
    return tmp_path


def config(base, *, dtype="float32", adapter="adapter", **lora) -> PolicyConfig:
    lora = LoraConfig(**{"rank": 4, "alpha": 8, "adapter": str(base / adapter), **lora})
    return PolicyConfig(model=str(base / "base"), dtype=dtype, device="cpu", lora=lora)


@torch.no_grad()
def logits(policy) -> torch.Tensor:
    return policy.model(IDS).logits  # [1, T, V]


def test_the_policy_is_the_saved_one_and_goes_on_training(base):
    policy = load_policy(config(base))
    assert torch.equal(logits(policy), logits(make_policy(lora=True)))
    assert not torch.allclose(logits(policy), logits(make_policy()), atol=0.1)
    parameters = policy.trainable()
    assert parameters
    assert all("lora_" in name for name in parameters)
    assert not policy.model.training


def test_what_is_trained_is_float32_on_a_bfloat16_base(base):
    policy = load_policy(config(base, dtype="bfloat16"))
    assert {p.dtype for p in policy.trainable().values()} == {torch.float32}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rank": 8}, r"rank 8 and alpha 8, .* with rank 4 and alpha 8\. .*policy\.lora\.rank=4"),
        ({"alpha": 16}, r"rank 4 and alpha 16, .* with rank 4 and alpha 8\. .*policy\.lora\.alpha=8"),
        ({"targets": ["q_proj"]}, r"targets is \['q_proj'\], but .* saved for \['down_proj'"),
        ({"adapter": "elsewhere"}, "no such folder; expected one that holds adapter_config.json"),
        ({"adapter": "base"}, "a whole model and no adapter; name it in policy.model"),
        ({"adapter": "empty"}, "expected a saved adapter or a checkpoint of a LoRA run"),
        ({"adapter": "."}, r"holds no adapter itself\. The newest one in it: .*adapter"),
    ],
)
def test_what_does_not_fit_is_refused_with_both_sides(base, changes, message):
    (base / "empty").mkdir()
    with pytest.raises(InputError, match=message):
        load_policy(config(base, **changes))


@pytest.mark.parametrize(
    ("saved", "message"),
    [
        ({"peft_type": "IA3"}, "of type IA3; expected LORA"),
        ({"use_dora": True, "rank_pattern": {"q_proj": 2}}, "saved with use_dora and rank_pattern, which"),
    ],
)
def test_kinds_of_adapters_that_a_recipe_cannot_state_are_refused(base, saved, message):
    path = base / "adapter" / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **saved}))
    with pytest.raises(InputError, match=message):
        load_policy(config(base))


def test_an_adapter_of_another_model_is_refused(base):
    from transformers import AutoModelForCausalLM, Qwen2Config

    shape = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    AutoModelForCausalLM.from_config(Qwen2Config(vocab_size=300, **shape)).save_pretrained(base / "wider")
    make_policy().tokenizer.save_pretrained(base / "wider")
    with pytest.raises(InputError, match=r"does not fit the model of policy\.model"):
        load_policy(config(base).model_copy(update={"model": str(base / "wider")}))


def prepared(base, out) -> Prepared:
    recipe = make_recipe(training__kl=0.2).model_copy(update={"policy": config(base)})
    policy = load_policy(recipe.policy)
    plan = make_plan(recipe, policy, prompt_tokens=20)
    return Prepared(recipe, policy, choose_decoder(policy), LetterTask(), resolve(recipe.method), plan, out)


def values(folder, metric):
    rows = read_metrics(folder)
    return rows[(rows["split"] == "train") & (rows["metric"] == metric)].set_index("step")["value"]


def test_the_kl_is_to_the_starting_adapter_and_stays_so_when_the_run_is_resumed(base):
    whole = base / "whole"
    start(prepared(base, whole), Log()).run()
    kl = values(whole, "kl")
    assert kl[1] == 0.0  # although the adapter is far from zero
    assert kl[6] > 0.0

    part = base / "part"
    trainer = start(prepared(base, part), Log())
    trainer.evaluate()
    for _ in range(3):
        trainer.train_step()
    trainer.save()
    resumed, _ = resume(prepared(base, part), Log())
    assert resumed.step == 3
    while resumed.step < 6:
        resumed.train_step()
    again = values(part, "kl")
    assert again.index.tolist() == kl.index.tolist()
    torch.testing.assert_close(torch.tensor(again.to_numpy()), torch.tensor(kl.to_numpy()), rtol=1e-4, atol=1e-6)


def test_a_checkpoint_of_such_a_run_needs_the_starting_adapter_no_more(base):
    run = base / "run"
    trainer = start(prepared(base, run), Log())
    trainer.train_step()
    trainer.save()
    shutil.rmtree(base / "adapter")
    assert torch.equal(logits(load_subject(find_subject(str(run), None, None))), logits(trainer.policy))
    # and the checkpoint is an adapter that another run can start from
    folder = list_checkpoints(run)[-1].folder
    assert torch.equal(logits(load_policy(config(base, adapter=str(folder)))), logits(trainer.policy))
