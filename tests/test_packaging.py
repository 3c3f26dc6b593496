"""What a person gets who installs the wheel: outside the checkout, in a new environment, every file is there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ["pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "botgrpo_cli", "recipes"]
NOT_SHIPPED = shutil.ignore_patterns("__pycache__", "*.pyc", "node_modules", "_recipes", ".*cache")

pytestmark = pytest.mark.slow


def call(*command: str | Path, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution, built from a copy of the checkout."""
    copy = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, copy / name, ignore=NOT_SHIPPED)
        else:
            shutil.copy(path, copy / name)
    out = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, copy, cwd=out)
    (built,) = out.glob("botgrpo-*-py3-none-any.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of a new environment: the project out of the wheel, its requirements borrowed from this environment."""
    place = tmp_path_factory.mktemp("elsewhere") / "venv"
    call(sys.executable, "-m", "venv", "--without-pip", place, cwd=place.parent)
    python = place / "bin" / "python"
    call(
        *(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "--quiet", wheel),
        cwd=place.parent,
    )
    own = Path(call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=place.parent).strip())
    # Only a folder on the path: the .pth files in it, such as that of the editable install, are not read.
    (own / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return place / "bin"


def test_the_wheel_holds_every_file_of_the_package_and_the_recipes(wheel):
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    expected = set()
    for folder, prefix in (("botgrpo_cli", "botgrpo_cli"), ("recipes", "botgrpo_cli/_recipes")):
        for path in (ROOT / folder).rglob("*"):
            relative = path.relative_to(ROOT / folder)
            if path.is_file() and not {"__pycache__", "node_modules"} & set(relative.parts):
                expected.add(f"{prefix}/{relative.as_posix()}")
    assert expected - inside == set()
    assert {name for name in inside if ".dist-info/" not in name} - expected == set()
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in inside)


def test_the_installed_package_is_the_wheels(installed, tmp_path):
    where = call(installed / "python", "-c", "import botgrpo_cli; print(botgrpo_cli.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parent)


def test_the_installed_command_lists_the_recipes(installed, tmp_path):
    listed = call(installed / "botgrpo", "recipes", "list", cwd=tmp_path)
    for path in (ROOT / "recipes").glob("*.yaml"):
        assert path.stem in listed


def test_the_installed_command_loads_a_recipe_by_name(installed, tmp_path):
    printed = call(installed / "botgrpo", "train", "react_qwen", "--scale", "tiny", "--dry-run", cwd=tmp_path)
    assert "nothing was trained or written" in printed
    assert list(tmp_path.iterdir()) == []


def test_versions_agree():
    from botgrpo_cli import __version__

    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_every_requirement_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *(name for extra in project["optional-dependencies"].values() for name in extra),
    ]
    names = {requirement.split(">=")[0].split("[")[0].lower().replace("_", "-") for requirement in wanted}
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in lines if "==" in line}
    assert names - {"botgrpo"} <= pinned


EXAMPLES = ROOT / "examples"
# One short update of the real model.
SHORT = [
    *("--steps", "1", "--set", "sampling.prompts=2", "--set", "sampling.group_size=2", "--set", "evaluation.prompts=2"),
    *("--set", "training.micro_batch=4", "--set", "sampling.max_new_tokens=16", "--set", "training.threads=1"),
]


@pytest.mark.parametrize("name", ["letters", "verifiers_sums"])
def test_an_example_trains_away_from_the_checkout(installed, tmp_path, name):
    """The pretrained model of the small scale, the real environment of verifiers."""
    shutil.copytree(EXAMPLES / name, tmp_path / "copied")
    said = call(installed / "botgrpo", "train", f"copied/{name}.yaml", *SHORT, "--out", "run", cwd=tmp_path)
    assert "Done: 1 steps" in said
    rows = (tmp_path / "run" / "metrics.csv").read_text(encoding="utf-8")
    assert {"letters": ",perfect,", "verifiers_sums": ",correct,"}[name] in rows


def test_the_notebook_runs_away_from_the_checkout(installed, tmp_path):
    """Its cells in order, with two updates instead of twenty."""
    cells = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    assert "steps=20" in code
    assert "evaluation.prompts=32" in code
    short = code.replace("steps=20", "steps=2").replace("evaluation.prompts=32", "evaluation.prompts=4")
    (tmp_path / "cells.py").write_text(short.replace("prompts=32", "prompts=4") + '\nprint("the end", run)\n')
    said = call(installed / "python", "cells.py", cwd=tmp_path)
    assert "the end Run('notebook-run': held-out solved" in said
    assert "The last result is" in said
