"""`botgrpo export hub`: the folder, its card and the code on it, and a push to a hub on the loopback interface."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import pytest
import torch
from huggingface_hub import ModelCard

from botgrpo_cli.app import main
from botgrpo_cli.methods.registry import resolve
from botgrpo_cli.policy.decode import choose_decoder
from botgrpo_cli.policy.load import load_policy
from botgrpo_cli.recipe.load import load_recipe
from botgrpo_cli.recipe.schema import LoraConfig, PolicyConfig
from botgrpo_cli.records.manifest import read_manifest, write_manifest
from botgrpo_cli.training.plan import make_plan
from botgrpo_cli.training.run import Prepared, start
from tests.conftest import make_policy
from tests.export.hub_server import Hub
from tests.export.test_merged import logits
from tests.training.toy import LetterTask, Log, make_recipe

LORA = LoraConfig(rank=4, alpha=8)
REPO = "ada/letters"

# After the card's own code: what its model computes, and which modules it took.
DUMP = """
import json, sys, torch
chat = [{"role": "user", "content": "say a"}]
ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
with torch.no_grad():
    found = model(torch.tensor([ids])).logits[0].float()
ours = sorted(name for name in sys.modules if name.startswith("botgrpo"))
json.dump({"ids": ids, "logits": found.tolist(), "ours": ours}, open("facts.json", "w"))
"""


def train(tmp_path, lora=None, model=None, **changes):
    """Two steps in `tmp/run`; returns the policy as it is in memory, adapters in place."""
    if model is None:
        base = make_policy()
        base.model.save_pretrained(tmp_path / "base")
        base.tokenizer.save_pretrained(tmp_path / "base")
    policy = PolicyConfig(model=model or str(tmp_path / "base"), dtype="float32", device="cpu", lora=lora)
    recipe = make_recipe(training__learning_rate=1e-2, training__steps=2, checkpoint__every=1, **changes)
    recipe = recipe.model_copy(update={"policy": policy})
    loaded = load_policy(recipe.policy)
    plan = make_plan(recipe, loaded, prompt_tokens=20)
    parts = (recipe, loaded, choose_decoder(loaded), LetterTask(), resolve(recipe.method), plan, tmp_path / "run")
    trainer = start(Prepared(*parts), Log())
    trainer.run()
    return trainer.policy


@pytest.fixture(scope="module", params=[None, LORA], ids=["every-weight", "lora"])
def trained(request, tmp_path_factory):
    """(folder with `run` and `base`, policy in memory, lora), left as it is by every test."""
    folder = tmp_path_factory.mktemp("trained")
    return folder, train(folder, request.param), request.param


@pytest.fixture
def whole(tmp_path):
    train(tmp_path)
    return tmp_path


def export(*words) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["export", "hub", *map(str, words)])
    return stop.value.code


def run_snippet(folder, tmp_path, **places) -> dict:
    """The card's code with places of this machine, in a process of its own."""
    (code,) = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    for name, place in {REPO: folder, **places}.items():
        assert f'"{name}"' in code
        code = code.replace(f'"{name}"', f'"{place}"')
    done = subprocess.run([sys.executable, "-c", code + DUMP], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("\n")
    return json.loads((tmp_path / "facts.json").read_text())


@pytest.mark.slow
def test_the_code_on_the_card_computes_what_was_trained(tmp_path, trained):
    home, policy, lora = trained
    assert export(home / "run", REPO, "--dry-run", tmp_path / "out") == 0
    found = run_snippet(tmp_path / "out", tmp_path, **({"path/to/base": home / "base"} if lora else {}))
    assert found["ours"] == []
    assert found["ids"] == policy.encode("say a")
    torch.testing.assert_close(torch.tensor(found["logits"]), logits(policy, found["ids"]), rtol=0, atol=1e-4)
    before = load_policy(PolicyConfig(model=str(home / "base"), dtype="float32", device="cpu"))
    assert (logits(before, found["ids"]) - torch.tensor(found["logits"])).abs().max() > 1e-2


def test_the_folder_and_its_card(tmp_path, trained, capsys):
    home, _, lora = trained
    assert export(home / "run", REPO, "--dry-run", tmp_path / "out", "--private") == 0
    said = capsys.readouterr()
    there = {path.name for path in (tmp_path / "out").iterdir()}
    weights = {"adapter_model.safetensors", "adapter_config.json"} if lora else {"model.safetensors", "config.json"}
    assert weights | {"README.md", "figure.png", "recipe.yaml", "tokenizer.json", "generation_config.json"} <= there
    assert "optimizer.pt" not in there
    assert all(f"  {name}  " in said.out for name in there)
    assert "private where it is new" in said.out
    assert (tmp_path / "out" / "figure.png").read_bytes().startswith(b"\x89PNG")
    card = ModelCard.load(tmp_path / "out" / "README.md")
    assert card.data.library_name == ("peft" if lora else "transformers")
    assert card.data.tags == ["botgrpo", "grpo", "bot-grpo", *(["lora"] if lora else [])]
    assert (card.data.base_model, card.data.license, card.data.license_name) == (None, "other", "unknown")
    assert "fill it in in README.md" in said.err
    table = [line for line in card.text.splitlines() if line.startswith("|")]
    assert table[0] == "|  | step 0 | step 2 |"
    assert table[2].startswith("| letter rate | ")  # what people watch comes first
    assert "LoRA, rank 4, alpha 8" in card.text or not lora
    assert "was heuristic or simulated" in card.text


def test_nothing_of_this_machine_is_in_the_folder(tmp_path, monkeypatch):
    train(tmp_path, LORA, judge__url="http://10.1.2.3:8000/v1", judge__kind="openai", judge__model="m")
    recipe = (tmp_path / "run" / "recipe.yaml").read_text()
    shutil.copytree(tmp_path / "run" / "checkpoints" / "step-1", tmp_path / "first")
    (tmp_path / "run" / "recipe.yaml").write_text(recipe.replace("adapter: null", f"adapter: {tmp_path / 'first'}"))
    assert export(tmp_path / "run", REPO, "--dry-run", tmp_path / "out") == 0
    for path in (tmp_path / "out").iterdir():
        data = path.read_bytes()
        assert str(tmp_path).encode() not in data, path.name
        assert b"10.1.2.3" not in data, path.name
    monkeypatch.setenv("BOTGRPO_JUDGE_URL", "http://localhost:9/v1")  # each machine has its own
    written = load_recipe(str(tmp_path / "out" / "recipe.yaml")).recipe
    assert (written.policy.model, written.policy.lora.adapter, written.judge.url) == ("base", "first", None)
    assert json.loads((tmp_path / "out" / "adapter_config.json").read_text())["base_model_name_or_path"] == "base"


def test_a_policy_of_the_package_keeps_its_name_and_licence(tmp_path, capsys):
    policy = train(tmp_path, LORA, model="tiny:aime-qwen2")
    assert export(tmp_path / "run", REPO, "--dry-run", tmp_path / "out") == 0
    assert capsys.readouterr().err.count("licence") == 0
    assert ModelCard.load(tmp_path / "out" / "README.md").data.license == "apache-2.0"
    assert load_recipe(str(tmp_path / "out" / "recipe.yaml")).recipe.policy.model == "tiny:aime-qwen2"
    found = run_snippet(tmp_path / "out", tmp_path)
    # The starting weights are float16 in the files, and the code on the card loads them as they are.
    torch.testing.assert_close(torch.tensor(found["logits"]), logits(policy, found["ids"]), rtol=0, atol=5e-2)
    before = load_policy(PolicyConfig(model="tiny:aime-qwen2", dtype="float32", device="cpu"))
    assert (logits(before, found["ids"]) - torch.tensor(found["logits"])).abs().max() > 0.5


@pytest.mark.parametrize("source", ["hub", "wheel"])
def test_the_small_model_is_the_one_of_the_hub(tmp_path, monkeypatch, source):
    monkeypatch.setenv("BOTGRPO_CACHE", str(tmp_path / "cache"))
    small = tmp_path / "cache" / "small" / "smollm2-135m-instruct"
    base = make_policy("llama")
    base.model.save_pretrained(small)
    base.tokenizer.save_pretrained(small)
    (small / "SOURCE.json").write_text(json.dumps({"source": source}))
    train(tmp_path, LORA, model="small:smollm2-135m-instruct")
    assert export(tmp_path / "run", REPO, "--dry-run", tmp_path / "out") == 0
    hub = "HuggingFaceTB/SmolLM2-135M-Instruct"
    card = ModelCard.load(tmp_path / "out" / "README.md")
    assert (card.data.base_model, card.data.base_model_relation, card.data.license) == (hub, "adapter", "apache-2.0")
    assert json.loads((tmp_path / "out" / "adapter_config.json").read_text())["base_model_name_or_path"] == hub
    assert f'from_pretrained("{hub}")' in card.text
    assert ("4-bit GGUF" in card.text) == (source == "wheel")


def test_another_step_is_another_model_with_its_own_table(tmp_path, trained, capsys):
    home, _, lora = trained
    for step in ("1", "last"):
        assert export(home / "run", REPO, "--dry-run", tmp_path / step, "--step", step) == 0
    weights = "adapter_model.safetensors" if lora else "model.safetensors"
    first, last = ((tmp_path / step / weights).read_bytes() for step in ("1", "last"))
    assert first != last
    text = (tmp_path / "1" / "README.md").read_text()
    assert "| steps | 1 of 2, " in text
    assert "|  | step 0 |\n" in text  # step 1 was not evaluated
    assert export(home / "run", REPO, "--dry-run", tmp_path / "none", "--step", "7") == 2
    assert "Complete ones in" in capsys.readouterr().err
    assert export(home / "run", REPO, "--dry-run", tmp_path / "none", "--step", "lst") == 2
    assert "expected last or the number of a step. Did you mean 'last'?" in capsys.readouterr().err


def test_what_is_no_measurement_is_said(whole):
    manifest = read_manifest(whole / "run")
    write_manifest(whole / "run", {**manifest, "heuristic": ["reward.content"], "simulated": ["judge.flip"]})
    (whole / "run" / "metrics.csv").write_text((whole / "run" / "metrics.csv").read_text().splitlines()[0] + "\n")
    assert export(whole / "run", REPO, "--dry-run", whole / "out") == 0
    text = (whole / "out" / "README.md").read_text()
    assert "Scored by fixed rules, not by a model or a person: `reward.content`." in text
    assert "Simulated: `judge.flip`." in text
    assert "The run has no evaluations." in text
    assert not (whole / "out" / "figure.png").exists()


@pytest.mark.parametrize("repo", ["letters", "ada/letters/x", "ada/let ters", "ada/", "a--b/c"])
def test_another_kind_of_name_is_refused(tmp_path, capsys, repo):
    assert export(tmp_path, repo, "--dry-run", tmp_path / "out") == 2
    assert "expected USER/NAME, as in ada/tiny-writer" in capsys.readouterr().err


def test_the_text_of_a_licence_goes_along(whole, capsys):
    (whole / "base" / "LICENSE").write_text("Terms of the lab\n")
    assert export(whole / "run", REPO, "--dry-run", whole / "out") == 0
    assert (whole / "out" / "LICENSE").read_text() == "Terms of the lab\n"
    data = ModelCard.load(whole / "out" / "README.md").data
    assert (data.license, data.license_name, data.license_link) == ("other", "see-license", "LICENSE")
    assert "licence" not in capsys.readouterr().err


# The check


def test_files_that_compute_something_else_are_not_kept(tmp_path, trained, monkeypatch, capsys):
    home, policy, _ = trained
    kind = type(policy.model)
    save = kind.save_pretrained

    def damaged(model, *words, **options):
        first = next(p for p in model.parameters() if p.requires_grad)
        kept = first.detach().clone()
        first.data += 0.5
        save(model, *words, **options)
        first.data = kept

    monkeypatch.setattr(kind, "save_pretrained", damaged)
    assert export(home / "run", REPO, "--dry-run", tmp_path / "out") == 1
    assert "does not compute what was trained: logits of a probe differ by" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


# The hub


@pytest.fixture
def hub(monkeypatch, tmp_path_factory):
    with Hub("ada") as found:
        monkeypatch.setenv("HF_TOKEN", "hf_of_nobody")
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", found.url)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        home = tmp_path_factory.mktemp("hf")  # for what the client keeps of a hub, and for the logs of hf-xet
        monkeypatch.setenv("HF_HOME", str(home))
        monkeypatch.setattr("huggingface_hub.constants.AGENT_HARNESSES_PATH", str(home / "harnesses.json"))
        yield found


def test_what_is_pushed_is_what_a_dry_run_writes(tmp_path, trained, hub, capsys):
    home, _, _ = trained
    before = {path.name for path in (home / "run").iterdir()}
    assert export(home / "run", REPO, "--dry-run", tmp_path / "out") == 0
    assert hub.repos == []
    assert export(home / "run", REPO, "--private") == 0
    assert hub.repos == [{"name": "letters", "organization": "ada", "visibility": "private"}]
    assert len(hub.cards) == 1  # the hub looks at the metadata first
    assert hub.files == {REPO: {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}}
    assert f"run, step 2: {hub.url}/{REPO}" in capsys.readouterr().out
    assert {path.name for path in (home / "run").iterdir()} == before


def test_an_upload_that_fails_leaves_nothing_here(trained, hub, capsys):
    home, _, _ = trained
    before = {path.name for path in (home / "run").iterdir()}
    hub.refuses.add("/commit/")
    assert export(home / "run", REPO) == 1
    assert "The upload to ada/letters failed: " in capsys.readouterr().err
    assert {path.name for path in (home / "run").iterdir()} == before
    assert hub.files == {}


def test_somebody_elses_name_is_refused_before_anything_is_loaded(tmp_path, hub, capsys):
    assert export(tmp_path, "adda/letters") == 2
    assert "the token is that of ada, who pushes to ada, lab. Did you mean 'ada'?" in capsys.readouterr().err
    assert export(tmp_path, "lab/letters") == 2  # hers too: what is missing is the run
    assert "is no run" in capsys.readouterr().err
    assert hub.repos == []


def test_without_a_token_or_a_hub_nothing_starts(tmp_path, hub, monkeypatch, capsys):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    assert export(tmp_path, REPO) == 2
    assert "The model hub can't be used, so nothing was written: " in capsys.readouterr().err
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "none"))
    assert export(tmp_path, REPO) == 2
    said = capsys.readouterr().err
    assert "There is no token for the model hub" in said
    assert "--dry-run DIR" in said
    assert list(tmp_path.iterdir()) == []
