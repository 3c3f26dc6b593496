"""Environments of verifiers as sources: the library itself, with small environments written here."""

from __future__ import annotations

import asyncio
import inspect
import json
import signal
import sys
from importlib.metadata import version

import pytest

from botgrpo_cli.errors import InputError
from botgrpo_cli.tasks.own.data import DataSection, load_rows
from botgrpo_cli.tasks.own.discover import load as discover
from botgrpo_cli.tasks.own.functions import Call
from botgrpo_cli.tasks.own.verifiers_source import load
from tests.tasks.own.environments import GROUP, SUMS


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """Writes an environment's module and returns its name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    names = []

    def write(text: str, name: str = "own-sums") -> str:
        module = name.replace("-", "_")
        (tmp_path / f"{module}.py").write_text(text)
        names.append(module)
        return name

    yield write
    for name in names:
        sys.modules.pop(name, None)


def call(source, name: str, text: str, row: dict, **built_in):
    """As the child calls it."""
    given = {"prompt_id": str(row["example_id"]), "finished": True, "tokens": (), "steps": ()} | built_in | row
    value = source.functions[name][1](text, **given)
    return asyncio.run(value) if inspect.isawaitable(value) else value


def refused(name: str, **options) -> str:
    with pytest.raises(InputError) as caught:
        load(name, options)
    return str(caught.value)


def test_functions_of_all_rubrics_with_their_weights(environment):
    source = load(environment(SUMS), {})
    found = {name: (one.kind, one.weight, one.batch, one.low, one.high) for name, (one, _) in source.functions.items()}
    assert found == {
        "solved": ("term", 1.0, False, None, None),
        "short": ("term", -0.5, False, None, None),
        "solved_2": ("term", 0.25, False, None, None),
        "remembers": ("metric", 0.0, False, None, None),
        "everything": ("metric", 0.0, False, None, None),
        "Reads": ("term", 1.0, False, None, None),
    }
    solved = source.functions["solved"][0]
    line = SUMS.split("\n").index("async def solved(parser, completion, answer) -> float:") + 1
    assert (solved.doc, solved.place) == ("Whether the answer is right.", f"own_sums.py:{line}")


def test_rows_are_those_of_its_data_sets(environment):
    source = load(environment(SUMS), {"held_out": 3})
    rows = source.rows()
    assert [len(rows[split]) for split in ("train", "held-out")] == [8, 3]
    assert rows["train"][2] == {
        "question": "2 + 1?", "answer": "3", "info": {"n": 2, "parts": [2, 1]}, "hard": False, "example_id": 2,
        "prompt": [{"content": "Answer in <answer>.", "role": "system"}, {"content": "2 + 1?", "role": "user"}],
    }  # fmt: skip
    found = load_rows(rows, DataSection(), "verifiers:own-sums")
    assert [item.columns["answer"] for item in found.items["held-out"]] == ["101", "102", "103"]
    assert found.items["train"][0].prompt[0] == {"role": "system", "content": "Answer in <answer>."}
    assert set(load(environment(SUMS), {}).rows()) == {"train"}


def test_functions_get_what_they_ask_for(environment):
    source = load(environment(SUMS), {})
    rows = source.rows()["train"]
    assert call(source, "solved", "It is <answer>3</answer>", rows[2]) == 1.0
    assert call(source, "solved", "It is <answer>4</answer>", rows[2]) == 0.0
    assert call(source, "short", "abc", rows[7]) == -110
    assert call(source, "short", "abc", rows[2], finished=False) == -5
    assert call(source, "everything", "abc", rows[2]) is True


def test_functions_of_one_completion_share_a_state(environment):
    source = load(environment(SUMS), {})
    row = source.rows()["train"][0]
    first, second = ((text,) for text in ["a", "a"])
    assert call(source, "remembers", "a", row, tokens=first) == 1
    assert call(source, "Reads", "a", row, tokens=first) == 1
    assert call(source, "remembers", "a", row, tokens=first) == 2
    assert call(source, "remembers", "a", row, tokens=second) == 1  # another completion of the same text
    assert call(source, "remembers", "b", row) == call(source, "remembers", "a", row, prompt_id="q") == 1


def test_a_copy_of_the_row_goes_to_the_functions(environment):
    text = SUMS.replace("def remembers(state):", "def remembers(state, info):\n    info['parts'].append(0)")
    source = load(environment(text), {})
    row = source.rows()["train"][0]
    call(source, "remembers", "a", row)
    assert row["info"]["parts"] == [0, 1]


def test_an_error_of_a_function_is_no_low_score(environment):
    source = load(environment(SUMS.replace("return -len", "raise ValueError('no length')\n    return -len")), {})
    with pytest.raises(ValueError, match="no length"):
        call(source, "short", "a", source.rows()["train"][0])


def test_info_may_be_json(environment):
    text = SUMS.replace('"info": {"n": n, "parts": [n, 1]}', '"info": json.dumps({"n": n})')
    source = load(environment(f"import json\n{text}"), {})
    assert call(source, "short", "abc", source.rows()["train"][2]) == -5


def test_as_the_child_binds_them(environment):
    loaded = discover(f"verifiers:{environment(SUMS)}", {"count": 5})
    assert loaded.description.concurrent == {"solved", "solved_2"}  # the others are stopped when they take too long
    assert set(loaded.description.required.values()) == {()}
    row = loaded.source.rows()["train"][1]
    arguments = loaded.bound["short"].for_one(Call("p", row["prompt"], "abc", row))
    assert loaded.bound["short"].call("abc", **arguments) == -4


def test_functions_of_a_group_see_the_completions_of_one_prompt_at_a_time(environment):
    loaded = discover(f"verifiers:{environment(SUMS + GROUP)}", {})
    assert [one.batch for one in loaded.description.functions.values()] == [True, True]
    rows = loaded.source.rows()["train"]
    texts = [("a", 0, "long"), ("b", 1, "x"), ("a", 0, "short"), ("b", 1, "y"), ("a", 0, "s"), ("b", 1, "y")]
    calls = [Call(number, rows[n]["prompt"], text, rows[n]) for number, n, text in texts]
    given = {name: loaded.bound[name].for_all(calls, {}) for name in ("rank", "several")}
    assert loaded.bound["rank"].call(**given["rank"]) == [0.0, 1.0, 1.0, 1.0, 0.0, 1.0]
    assert asyncio.run(loaded.bound["several"].call(**given["several"])) == [3.0] * 6
    chats = given["rank"] | {"completions": [[{"role": "assistant", "content": text}] for _, _, text in texts]}
    assert loaded.bound["rank"].call(**chats) == [0.0, 1.0, 1.0, 1.0, 0.0, 1.0]
    wrong = discover(f"verifiers:{environment((SUMS + GROUP).replace('* len(completions)', ''), 'own-wrong')}", {})
    with pytest.raises(ValueError, match=r"zip\(\)"):
        asyncio.run(wrong.bound["several"].call(**given["several"]))


def test_ctrl_c_stays_ours_and_so_do_progress_bars(environment):
    import datasets

    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    load(environment(SUMS), {}).rows()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert not datasets.are_progress_bars_disabled()


def test_versions_tell_of_an_environment_that_changed(environment):
    first = load(environment(SUMS), {}).versions
    assert first["verifiers"] == version("verifiers")
    assert first["own_sums"].startswith("sha256:")
    sys.modules.pop("own_sums")
    again = load(environment(SUMS + "\n# other\n"), {}).versions
    assert again["own_sums"] != first["own_sums"]


# --- what is refused -------------------------------------------------------------------------------------------------
def test_what_is_missing_is_named(environment):
    assert "verifiers:no-such-env: no environment 'no-such-env' is installed." in refused("no-such-env")
    assert "verifiers:json: the module json has no load_environment." in refused("json")
    taskset = environment("import verifiers.v1 as vf\n__all__ = []\n", "own-tasks")
    assert "It is no environment, or one of verifiers.v1, which can't be used here." in refused(taskset)
    name = environment(SUMS)
    assert refused(name, cuont=3) == (
        "verifiers:own-sums has no option 'cuont'; expected one of count, held_out, system. Did you mean 'count'?"
    )


def test_an_installed_environment_with_almost_that_name_is_suggested(environment, tmp_path):
    info = tmp_path / "own_sums-0.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-sums\nVersion: 0.3\nRequires-Dist: verifiers>=0.2")
    assert refused("own-sms").endswith("is installed. Installed: own-sums. Did you mean 'own-sums'?")
    assert load(environment(SUMS), {}).versions["own_sums"] == "0.3"


def test_without_verifiers_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "verifiers", None)
    assert refused("own-sums").endswith("needs the library verifiers: pip install 'botgrpo[verifiers]'.")


def test_a_verifiers_without_environments_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "verifiers", type(sys)("verifiers"))  # as that of 0.4
    assert refused("own-sums") == (
        f"verifiers:own-sums needs verifiers 0.2 or 0.3, which can load environments; {version('verifiers')} is "
        "installed: pip install 'botgrpo[verifiers]'."
    )


def test_an_environment_that_fails_says_why(environment):
    name = environment(f"{SUMS}\ndef load_environment():\n    raise ValueError('no\\nkey.')\n")
    assert refused(name) == "verifiers:own-sums could not be loaded: ValueError: no key."
    name = environment("import no_such_module", "own-lacking")
    assert refused(name).startswith("verifiers:own-lacking could not be imported: ModuleNotFoundError: No module named")


OWN = "verifiers:own-sums"
ONE_TURN = "expected a single-turn environment, in which one completion answers one prompt, without tools."
WRONG = {
    "several turns": (
        "class Game(vf.MultiTurnEnv):\n    async def env_response(self, messages, state, **_): return []\n",
        "Game(dataset=rows(0, 3), max_turns=3)",
        f"{OWN} is a Game, with several turns; {ONE_TURN}",
    ),
    "a tool environment": (
        "def add(a: int, b: int) -> int:\n    'Adds.'\n    return a + b\n",
        "vf.ToolEnv(dataset=rows(0, 3), tools=[add])",
        f"{OWN} is a ToolEnv, with several turns; {ONE_TURN}",
    ),
    "tools": (
        "TOOL = {'name': 'add', 'description': 'Adds.', 'parameters': {}}\n",
        "vf.SingleTurnEnv(dataset=rows(0, 3), tool_defs=[TOOL], rubric=vf.Rubric([short]))",
        f"{OWN} has tools (add); {ONE_TURN}",
    ),
    "a group": (
        "def one(): return vf.SingleTurnEnv(dataset=rows(0, 3), rubric=vf.Rubric([short]))\n",
        "vf.EnvGroup([one(), one()], ['a', 'b'])",
        f"{OWN} is a group of environments (a, b), which can't be used; name one of them.",
    ),
    "rollouts of its own": (
        "class Own(vf.SingleTurnEnv):\n    async def setup_state(self, state): return state\n",
        "Own(dataset=rows(0, 3), rubric=vf.Rubric([short]))",
        f"{OWN} has rollouts of its own (setup_state of Own); {ONE_TURN}",
    ),
    "a rubric of its own": (
        "class Own(vf.Rubric):\n    async def score_rollout(self, state): state['reward'] = 1.0\n",
        "vf.SingleTurnEnv(dataset=rows(0, 3), rubric=Own([short]))",
        f"{OWN}: Own scores in a way of its own; expected reward functions.",
    ),
    "no functions": (
        "",
        "vf.SingleTurnEnv(dataset=rows(0, 3))",
        f"{OWN}: its rubric has no reward functions.",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_used_is_refused(environment, what):
    before, made, says = WRONG[what]
    assert refused(environment(f"{SUMS}\n{before}\ndef load_environment():\n    return {made}\n")) == says


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (
            "eval_dataset=rows(0, 3)",
            f"{OWN} has data for evaluation alone; expected a data set to train on.",
        ),
        (
            "dataset=Dataset.from_list([{'question': 'a', 'info': json.dumps({'tool_defs': [{}]})}])",
            f"{OWN}: row 1 (train) has tools in info.tool_defs; {ONE_TURN}",
        ),
        (
            "dataset=Dataset.from_list([{'question': 'a', 'info': {'tool_defs': [{'name': 'a'}]}}])",
            f"{OWN}: row 1 (train) has tools in info.tool_defs; {ONE_TURN}",
        ),
    ],
)
def test_rows_that_cannot_be_used_are_refused(environment, data, says):
    made = f"vf.SingleTurnEnv({data}, rubric=vf.Rubric([short]))"
    source = load(environment(f"import json\n{SUMS}\ndef load_environment():\n    return {made}\n"), {})
    with pytest.raises(InputError) as caught:
        source.rows()
    assert str(caught.value) == says


def test_rows_go_to_the_parent_as_json_would(environment):
    rows = load(environment(SUMS), {}).rows()
    assert json.loads(json.dumps(rows)) == rows
