"""`botgrpo methods` as a real process."""

from __future__ import annotations

import re
import subprocess
import sys

from botgrpo_cli.methods.registry import METHODS


def test_every_method_is_listed_with_paper_formula_and_parts():
    command = [sys.executable, "-m", "botgrpo_cli", "--no-color", "methods"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"COLUMNS": "200"})
    said = re.sub(r"\s+", " ", done.stdout)
    for name, method in METHODS.items():
        assert f" {name} " in f" {said}"
        assert method.paper in said
        assert re.sub(r"\s+", " ", method.formula) in said
    assert "advantage group, ratio sequence, clip 0.0003 / 0.0004, aggregation sequence-mean, minibatches 4" in said
    assert "clip 0.2 / 0.28, aggregation token-mean, refills 10, overlong 0.2" in said
