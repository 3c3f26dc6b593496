"""Loading: chat templates and BOS, end tokens, devices and dtypes, what is trained in which precision."""

from __future__ import annotations

import pytest
import torch

from botgrpo_cli.errors import InputError
from botgrpo_cli.policy.load import choose_device, choose_dtype, load_policy
from botgrpo_cli.recipe.schema import LoraConfig, PolicyConfig
from botgrpo_cli.training.plan import make_plan
from tests.conftest import TEMPLATE, make_policy, make_tokenizer


@pytest.fixture
def model_folder(tmp_path):
    policy = make_policy()
    policy.model.save_pretrained(tmp_path / "model")
    policy.tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def with_bos(policy, template):
    """A tokenizer whose post-processor adds BOS, as Llama's does."""
    from tokenizers.processors import TemplateProcessing

    tokenizer = make_tokenizer()
    tokenizer.bos_token = "<|im_start|>"
    bos = tokenizer.bos_token_id
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|im_start|> $A", special_tokens=[("<|im_start|>", bos)]
    )
    tokenizer.chat_template = template
    policy.tokenizer = tokenizer
    return policy, bos


PLAIN = "{% for m in messages %}{{ m['content'] }}{% endfor %}"


@pytest.mark.parametrize("template", [None, PLAIN, "{{ bos_token }}" + PLAIN, "{{ bos_token }}{{ bos_token }}" + PLAIN])
def test_exactly_one_bos_with_or_without_a_template(policy, template):
    policy, bos = with_bos(policy, template)
    ids = policy.encode("hello")
    assert ids[0] == bos
    assert ids.count(bos) == 1


def test_no_bos_where_the_model_has_none(policy):
    policy.tokenizer.chat_template = None
    assert policy.tokenizer.decode(policy.encode("hello")) == "hello\n"


def test_the_chat_template_is_used_and_asks_for_an_answer(policy):
    assert policy.tokenizer.chat_template == TEMPLATE
    expected = "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    assert policy.tokenizer.decode(policy.encode("hello")) == expected


def test_a_folder_loads_with_every_end_token(model_folder):
    policy = load_policy(PolicyConfig(model=str(model_folder), dtype="float32", device="cpu"))
    assert policy.eos_ids == {0, 2}
    assert not policy.model.training
    expected = make_policy().model.state_dict()
    assert all(torch.equal(t, expected[n]) for n, t in policy.model.state_dict().items())


def test_what_is_trained_is_float32_whatever_the_compute_dtype(model_folder):
    for lora in (None, LoraConfig(rank=2)):
        policy = load_policy(PolicyConfig(model=str(model_folder), dtype="bfloat16", device="cpu", lora=lora))
        assert {p.dtype for p in policy.trainable().values()} == {torch.float32}
        assert policy.compute_dtype == torch.bfloat16
    assert all("lora_" in name for name in policy.trainable())
    assert not any("lm_head" in name for name in policy.trainable())


def test_unknown_and_absent_devices_are_refused():
    with pytest.raises(InputError, match="expected auto, cpu, cuda"):
        choose_device("gpu")
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="sees 0 CUDA devices"):
            choose_device("cuda")
    assert choose_device("cpu").type == "cpu"


def test_auto_dtype_is_native_or_float32():
    native = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    assert choose_dtype("auto", torch.device("cpu")) == (torch.bfloat16 if native else torch.float32)
    assert choose_dtype("float32", torch.device("cpu")) == torch.float32


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("./nothing", "no such folder"),
        ("nothing.gguf", "no such file"),
        ("tiny:react-qwen", "Did you mean 'react-qwen2'"),
        ("nobody/no-such-model", "Two commands work without it"),
    ],
)
def test_a_model_that_is_not_there(name, message):
    with pytest.raises(InputError, match=message):
        load_policy(PolicyConfig(model=name, device="cpu"))


def test_the_paper_scale_without_a_gpu_names_the_commands_that_work(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(InputError) as error:
        load_policy(PolicyConfig(), scale="paper")
    assert "botgrpo train react_qwen --scale tiny" in str(error.value)
    assert "botgrpo train react_qwen --scale small" in str(error.value)


def test_plan_counts_what_is_held(policy):
    from tests.training.toy import make_recipe

    plan = make_plan(make_recipe(), policy, prompt_tokens=20)
    parameters = sum(p.numel() for p in policy.model.parameters())
    assert (plan.rollouts, plan.micro_batches, plan.tokens_a_step, plan.evaluations) == (12, 3, 144, 4)
    assert plan.weights_gb == pytest.approx(parameters * 8 / 1e9)
    assert plan.optimizer_gb == pytest.approx(parameters * 12 / 1e9)
    # keys and values of 12 rows x 32 tokens x 2 layers x 2 heads x 8 float32
    assert plan.cache_gb == pytest.approx(12 * 32 * 2 * 2 * 2 * 8 * 4 / 1e9)
