"""The command itself: exit codes, global options, and that it starts without the heavy libraries."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import typer

from botgrpo_cli import __version__, console
from botgrpo_cli.app import app, main
from botgrpo_cli.errors import InputError, RunError

HEAVY = ["torch", "transformers", "pandas", "matplotlib", "numpy"]


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    return stop.value.code or 0


@pytest.fixture
def failing():
    """The real application with one more subcommand, `fail`, which raises what it is given."""
    commands = list(app.registered_commands)

    def add(error: BaseException) -> None:
        @app.command("fail")
        def fail() -> None:
            raise error

    yield add
    app.registered_commands[:] = commands
    console.set_up()


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (InputError("line 3: [no] such key."), 2, "Error: line 3: [no] such key.\n"),
        (RunError("Step 7 failed; step 5 is kept."), 1, "Error: Step 7 failed; step 5 is kept.\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_an_error_is_one_message_and_its_own_exit_code(failing, capsys, error, code, says):
    failing(error)
    assert run("fail") == code
    captured = capsys.readouterr()
    assert captured.err == says
    assert captured.out == ""


def test_a_long_message_is_not_broken_into_lines(failing, capsys):
    failing(InputError("x" * 300))
    assert run("fail") == 2
    assert capsys.readouterr().err == "Error: " + "x" * 300 + "\n"


def test_an_unforeseen_error_keeps_its_traceback(failing):
    failing(ZeroDivisionError("a bug"))
    with pytest.raises(ZeroDivisionError):
        main(["fail"])


def test_version(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out == f"botgrpo {__version__}\n"


def test_help_names_every_command(capsys):
    assert run("--help") == 0
    text = capsys.readouterr().out
    for command in ("train", "evaluate", "plot", "recipes", "export", "setup", "doctor"):
        assert f" {command} " in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["trian"], "Did you mean 'train'?"),
        (["train", "react_qwen", "--sed", "1"], "--seed"),
        (["setup"], "Missing argument"),
        (["--verbose", "--quiet", "doctor"], "exclude each other"),
    ],
)
def test_wrong_usage_is_exit_code_2_and_says_what_is_right(capsys, arguments, says):
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(("options", "quiet"), [([], False), (["-q"], True)])
def test_quiet_silences_progress_and_leaves_results(failing, capsys, options, quiet):
    @app.command("fail")
    def both() -> None:
        console.progress_console().print("step 1")
        console.console().print("result 2")

    assert run(*options, "fail") == 0
    assert capsys.readouterr().out == ("result 2\n" if quiet else "step 1\nresult 2\n")
    assert console.is_quiet() is quiet


def test_verbose_adds_the_traceback_to_an_error():
    command = [sys.executable, "-m", "botgrpo_cli"]
    plain = subprocess.run([*command, "setup", "moon"], capture_output=True, text=True)
    verbose = subprocess.run([*command, "-v", "setup", "moon"], capture_output=True, text=True)
    assert plain.returncode == verbose.returncode == 2
    assert plain.stderr.startswith("Error: ")
    assert verbose.stderr.startswith("Traceback")
    assert verbose.stderr.endswith(plain.stderr)


def test_no_color_reaches_every_console(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "")
    assert console.console().no_color is False
    console.set_up(color=False)
    assert console.console().no_color is True


def test_the_application_starts_without_heavy_libraries():
    program = f"import sys, botgrpo_cli.app; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("given", "used"),
    [({}, "10000"), ({"GOMP_SPINCOUNT": "5"}, "5"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "None")],
)
def test_threads_that_wait_spin_little_unless_told_otherwise(given, used):
    program = (
        "import os, sys, botgrpo_cli.app as it\n"
        "it.app = lambda *_, **__: print(os.environ.get('GOMP_SPINCOUNT'), 'torch' in sys.modules)\n"
        "it.main([])"
    )
    names = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    environment = {key: value for key, value in os.environ.items() if key not in names} | given
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{used} False\n"


def test_python_m_is_the_same_command():
    done = subprocess.run(
        [sys.executable, "-m", "botgrpo_cli", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"botgrpo {__version__}\n"


def test_every_command_has_help():
    group = typer.main.get_command(app)
    for name, command in group.commands.items():
        assert command.help, name
