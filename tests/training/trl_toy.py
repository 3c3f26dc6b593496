"""The letter task, prepared for TRL."""

from __future__ import annotations

from botgrpo_cli.methods.registry import resolve
from botgrpo_cli.policy.decode import choose_decoder
from botgrpo_cli.training.run import Prepared
from botgrpo_cli.training.trl_engine.start import TrlEngine
from tests.conftest import make_policy
from tests.training.toy import LetterTask, make_recipe


def prepare(folder, recipe=None, *, policy=None, task=None) -> TrlEngine:
    recipe, policy = recipe or make_recipe(), policy or make_policy()
    decoder, method = choose_decoder(policy), resolve(recipe.method)
    return TrlEngine(Prepared(recipe, policy, decoder, task or LetterTask(), method, None, folder))
