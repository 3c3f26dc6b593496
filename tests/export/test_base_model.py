"""The parts of `botgrpo export hub` alone: names and licences of starting models, and the check on logits."""

from __future__ import annotations

import threading

import pytest
import torch

from botgrpo_cli.errors import RunError
from botgrpo_cli.export import base_model, check
from botgrpo_cli.export.base_model import Licence, describe_base, find_licence
from botgrpo_cli.export.hub import within


def test_the_licence_of_the_starting_model_is_found_where_it_stands(tmp_path, monkeypatch):
    assert find_licence("Qwen/Qwen2.5-3B-Instruct", None).name == "qwen-research"
    assert find_licence("somebody/else", None) is None
    assert find_licence(None, tmp_path) is None
    (tmp_path / "LICENSE").write_text("\n   Apache License\n   Version 2.0, January 2004\n")
    assert find_licence(None, tmp_path) == Licence("apache-2.0", file=tmp_path / "LICENSE")
    (tmp_path / "LICENSE").write_text("Terms of the lab\n")
    assert find_licence(None, tmp_path) == Licence("other", "see-license", "LICENSE", tmp_path / "LICENSE")
    (tmp_path / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n# A model\n")
    assert find_licence(None, tmp_path).licence == "cc-by-4.0"
    cached = {"README.md": str(tmp_path / "README.md")}
    monkeypatch.setattr(base_model, "try_to_load_from_cache", lambda repo, name: cached.get(name))
    assert find_licence("Qwen/Qwen2.5-3B-Instruct", None).licence == "cc-by-4.0"  # the card itself goes first


def test_a_name_for_every_kind_of_starting_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "it.gguf").touch()
    names = {"org/model": "org/model", "./mine": "mine", "mine": "mine", str(tmp_path / "mine"): "mine"}
    for model, name in {**names, "mine/it.gguf": "it", "tiny:aime-qwen2": "tiny:aime-qwen2"}.items():
        found = describe_base(model)
        assert (found.name, found.hub) == (name, name if model == "org/model" else None)


@pytest.mark.parametrize("found", [torch.tensor([[1.0, float("nan")]]), torch.ones(1, 3), torch.tensor([[1.0, 2.1]])])
def test_the_check_refuses_other_logits(found):
    wanted = torch.tensor([[1.0, 2.0]])
    check.require_same(wanted + 1e-4, wanted, "This")
    with pytest.raises(RunError, match="This does not compute"):
        check.require_same(found, wanted, "This")


def test_a_hub_that_never_answers_is_not_waited_for():
    with pytest.raises(TimeoutError, match="has not answered"):
        within(0.01, threading.Event().wait)
