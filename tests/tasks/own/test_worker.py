"""What functions get, how long they may take, and what becomes of what they raise; in a real child process."""

from __future__ import annotations

from pathlib import Path

from botgrpo_cli.tasks.own.pool import FunctionPool
from tests.tasks.own.asking import asked, call, reason

CHAT = [{"role": "user", "content": "What is 1 + 1?"}]


def test_a_function_of_one_completion_gets_what_it_names(tmp_path: Path):
    text = (
        "def solved(text, answer, steps, tokens=(), *, prompt, prompt_id, finished, level=7):\n"
        "    assert (text, answer, steps, tokens) == ('it is 4', '4', ('a', 'b'), ('it', ' is 4')), locals()\n"
        "    assert (prompt, prompt_id, finished, level) == ('2 + 2?', 'p3', False, 7), locals()\n"
        "    return True\n"
    )
    columns = {"answer": "4", "other": 1}
    one = call("it is 4", columns=columns, steps=("a", "b"), tokens=("it", " is 4"), finished=False)
    assert asked(tmp_path, text, "solved", one) == [1.0]


def test_double_star_gets_all_that_costs_nothing_and_a_column_wins(tmp_path: Path):
    text = (
        "def solved(text, **rest):\n"
        "    assert text == 'it is 4' and 'text' not in rest, rest\n"
        "    others = dict(prompt='2 + 2?', prompt_id='p3', finished=True)\n"
        "    assert rest == others | dict(steps=9, answer='4'), rest\n"
        "    return 1\n"
    )
    assert asked(tmp_path, text, "solved", call("it is 4", columns={"answer": "4", "steps": 9, "text": "column"})) == [
        1.0
    ]


def test_a_parameter_without_a_column_is_a_sentence(tmp_path: Path):
    (answer,) = asked(
        tmp_path, "def solved(text, anser): return 1\n", "solved", call(columns={"answer": 1, "level": 2})
    )
    assert reason(answer).startswith(
        "sums.py:2: solved takes 'anser', which is no column of the data. Its columns are answer and level; "
    )
    assert reason(answer).endswith("Did you mean 'answer'?")
    (answer,) = asked(tmp_path, "def solved(completions, anser): return [1]\n", "solved", call())
    assert "It has no columns; built in are prompts, completions" in reason(answer)


# After the examples of TRL's page on GRPO: length by ids and by characters, a format in chat form, a reference in a
# column, two tasks in one data set, curriculum by the trainer's state, an async function.
TRL = r'''
import asyncio
import re

def length_by_ids(completion_ids, **kwargs):
    """Higher for longer completions."""
    return [float(len(ids)) for ids in completion_ids]

def length(prompts, completions, **kwargs):
    return [float(len(completion)) for completion in completions]

def format_reward(completions, **kwargs):
    pattern = r"^<think>.*?</think><answer>.*?</answer>$"
    contents = [completion[0]["content"] for completion in completions]
    return [1.0 if re.match(pattern, content) else 0.0 for content in contents]

def reference(completions, ground_truth, **kwargs):
    matches = [re.search(r"\\boxed\{(.*?)\}", completion) for completion in completions]
    contents = [match.group(1) if match else "" for match in matches]
    return [1.0 if content == truth else 0.0 for content, truth in zip(contents, ground_truth)]

def math_only(prompts, completions, task, **kwargs):
    return [1.0 if t == "math" and "4" in c else None if t != "math" else -1.0 for c, t in zip(completions, task)]

def curriculum(completions, trainer_state, **kwargs):
    return [trainer_state.global_step / trainer_state.max_steps for _ in completions]

def logs(completions, log_extra=None, log_metric=None, **kwargs):
    log_extra("seen", list(completions))
    log_metric("share", 0.5)
    assert "prompt" not in kwargs and kwargs["completion_ids"] and kwargs["task"]
    return [0 for _ in completions]

async def in_time(prompts, completions, **kwargs):
    await asyncio.sleep(0.001)
    return [0.25] * len(completions)

class Unrelated: ...
'''


def test_a_file_in_the_form_of_trl_runs_as_it_is(tmp_path: Path):
    path = tmp_path / "trl_rewards.py"
    path.write_text(TRL)
    plain = [
        call(r"so \boxed{4}", token_ids=(5, 6, 7), columns={"ground_truth": "4", "task": "math", "prompt": "2 + 2?"}),
        call("print", token_ids=(5,), columns={"ground_truth": "x", "task": "code"}),
    ]
    chat = [
        call("<think>a</think><answer>b</answer>", prompt=CHAT),
        call("<answer>b</answer>", prompt=CHAT),
    ]
    names = ["length_by_ids", "length", "reference", "math_only", "curriculum", "logs", "in_time"]
    with FunctionPool(str(path)) as pool:
        state = {"global_step": 3, "max_steps": 4}
        assert pool.submit(names, plain, trainer_state=state).result(30) == [
            dict(zip(names, [3.0, 12.0, 1.0, 1.0, 0.75, 0.0, 0.25], strict=True)),
            dict(zip(names, [1.0, 5.0, 0.0, None, 0.75, 0.0, 0.25], strict=True)),
        ]
        assert pool.submit(["format_reward"], chat).result(30) == [{"format_reward": 1.0}, {"format_reward": 0.0}]
        unknown = pool.submit(["curriculum"], plain).result(30)[1]["curriculum"]
    assert reason(unknown) == (
        "trl_rewards.py:25: curriculum raised AttributeError: trainer_state.global_step is not known to an own task; "
        "known is nothing (trl_rewards.py:26) for 2 completions, one of them for the prompt 'p3'."
    )


def test_whatever_a_function_raises_is_a_failure_that_names_its_line(tmp_path: Path):
    text = (
        "import json, sys\n"
        "def inner(answer):\n"
        "    return json.loads(answer)\n"
        "def solved(text, raising):\n"
        "    if raising == 'exit': sys.exit(2)\n"
        "    if raising == 'interrupt': raise KeyboardInterrupt\n"
        "    if raising == 'depth': return solved(text, raising)\n"
        "    if raising == 'parse': return inner('')\n"
        "    if raising == 'odd': raise type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})\n"
        "    return 1\n"
    )
    kinds = ["exit", "interrupt", "depth", "parse", "odd", "no"]
    *failures, last = asked(
        tmp_path, text, "solved", *(call(prompt_id=kind, columns={"raising": kind}) for kind in kinds)
    )
    assert last == 1.0
    assert reason(failures[0]) == "sums.py:5: solved raised SystemExit: 2 (sums.py:6) for the prompt 'exit'."
    assert reason(failures[1]) == "sums.py:5: solved raised KeyboardInterrupt (sums.py:7) for the prompt 'interrupt'."
    assert "raised RecursionError: maximum recursion depth exceeded" in reason(failures[2])
    assert "raised JSONDecodeError: Expecting value: line 1 column 1 (char 0) (sums.py:4)" in reason(failures[3])
    assert "raised Odd (sums.py:10) for the prompt 'odd'." in reason(failures[4])


def test_a_call_that_runs_too_long_is_stopped_wherever_it_is(tmp_path: Path):
    text = (
        "import re, signal, time\n"
        "def f(text, way):\n"
        "    if way == 'loop':\n"
        "        while True: pass\n"
        "    if way == 're': re.match(r'(a+)+$', 'a' * 64 + 'b')\n"
        "    if way == 'caught':\n"
        "        try:\n"
        "            while True: time.sleep(0.001)\n"
        "        except BaseException: return 1\n"
        "    if way == 'value':\n"
        "        return type('Slow', (), {'item': lambda self: f(text, 'loop')})()\n"
        "    if way == 'alarm':\n"
        "        signal.signal(signal.SIGALRM, signal.SIG_IGN); signal.alarm(1); signal.alarm(0)\n"
        "    return 1\n"
    )
    ways = ["loop", "re", "alarm", "caught", "value", "no"]
    answers = asked(tmp_path, text, "f", *(call(prompt_id=way, columns={"way": way}) for way in ways), timeout=0.5)
    assert (answers[2], answers[5]) == (1.0, 1.0)
    for n in (0, 1, 3, 4):
        sentence = f"sums.py:3: f ran longer than 0.5 s for the prompt '{ways[n]}' and was stopped."
        assert reason(answers[n]) == sentence


def test_async_functions_run_at_once_each_within_its_time(tmp_path: Path):
    text = (
        "import asyncio, time\n"
        "met = asyncio.Semaphore(100)\n"  # belongs to the loop that it meets first
        "everyone = []\n"
        "async def f(text, way):\n"
        "    async with met:\n"
        "        everyone.append(way)\n"
        "        while len(everyone) < 7: await asyncio.sleep(0.001)\n"  # ends only where all have started
        "        if way == 'late': await asyncio.sleep(60)\n"
        "        if way == 'block': time.sleep(60)\n"
        "        if way == 'own': raise TimeoutError('mine')\n"
        "        if way == 'exit': raise SystemExit(2)\n"
        "        if way == 'cancel': raise asyncio.CancelledError\n"
        "        return 0.5\n"
    )
    ways = ["late", "block", "own", "exit", "cancel", "no", "yes"]
    answers = asked(tmp_path, text, "f", *(call(prompt_id=way, columns={"way": way}) for way in ways), timeout=1.0)
    assert answers[5:] == [0.5, 0.5]
    assert reason(answers[0]) == "sums.py:5: f ran longer than 1 s for the prompt 'late' and was stopped."
    assert reason(answers[1]) == "sums.py:5: f ran longer than 1 s for the prompt 'block' and was stopped."
    assert "raised TimeoutError: mine (sums.py:11)" in reason(answers[2])
    assert "raised SystemExit: 2" in reason(answers[3])
    assert "raised CancelledError" in reason(answers[4])


def test_an_async_function_that_blocks_the_loop_is_stopped_too(tmp_path: Path):
    text = "import time\nasync def f(text): time.sleep(60)\n"
    (answer,) = asked(tmp_path, text, "f", timeout=0.5)
    assert reason(answer) == "sums.py:3: f ran longer than 0.5 s for the prompt 'p3' and was stopped."


def test_what_an_async_function_left_behind_does_no_harm(tmp_path: Path):
    text = (
        "import asyncio\n"
        "async def bad(): raise SystemExit(5)\n"
        "async def f(text, way):\n"
        "    if way == 'leave': asyncio.create_task(bad())\n"
        "    await asyncio.sleep(0.01)\n"
        "    return 0.5\n"
    )
    (pool_answer,) = asked(tmp_path, text, "f", call(columns={"way": "leave"}))
    assert "raised SystemExit: 5" in reason(pool_answer)
    assert asked(tmp_path, text, "f", call(columns={"way": "no"})) == [0.5]
