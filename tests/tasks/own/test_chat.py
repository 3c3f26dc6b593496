"""What a prompt is, and what an instruction and a system message make of it."""

from __future__ import annotations

import pytest

from botgrpo_cli.tasks.own.data import DataSection, load_data
from tests.tasks.own.test_data import CHAT, both, jsonl, load, refused, sums


def test_chat_messages_in_a_jsonl_column(tmp_path):
    chat = [{"role": "system", "content": "Be kind.", "name": None}, {"role": "user", "content": "Hi {n}", "n": 1}]
    other = jsonl(tmp_path / "other.jsonl", [{"messages": CHAT}])
    found = load(tmp_path, [{"messages": chat}, {"messages": CHAT}, {"messages": "Hello?"}], held_out=other)
    (item,) = found.items["train"]  # the chat of one user message is the same prompt as the text
    assert item.prompt == item.given == [{"role": m["role"], "content": m["content"]} for m in chat]
    assert item.columns == {"messages": chat}


def test_parquet_messages(tmp_path):
    import pyarrow
    import pyarrow.parquet

    chats = [[{"role": "user", "content": f"{n}?", "tool": None}] for n in range(20)]
    pyarrow.parquet.write_table(pyarrow.table({"prompt": chats, "n": [*range(20)]}), tmp_path / "own.parquet")
    found = load_data(DataSection(data=str(tmp_path / "own.parquet"), share=0.5, system="Count."))
    for item in both(found):
        n = item.columns["n"]
        assert item.given == [{"role": "user", "content": f"{n}?"}]
        assert item.prompt == [{"role": "system", "content": "Count."}, {"role": "user", "content": f"{n}?"}]
        assert type(n) is int


def test_a_system_message_comes_before_a_text(tmp_path):
    item = load(tmp_path, sums(20), system="Add.", share=0.5).items["train"][0]
    assert item.prompt == [{"role": "system", "content": "Add."}, {"role": "user", "content": item.given}]


@pytest.mark.parametrize(
    ("instruction", "prompt"),
    [
        (r"{prompt} Put it into \boxed{answer}.", r"Is {answer} {x}? Put it into \boxed{answer}."),
        ("{topic}: {question} {unknown} {}", "{prompt}: Is {answer} {x}? {unknown} {}"),
        ("{prompt}\n{choices} {none}.", 'Is {answer} {x}?\n["é", 1] .'),
        ("{'prompt'} {answer}", "{'prompt'} 4"),
    ],
)
def test_an_instruction_goes_around_a_text(tmp_path, instruction, prompt):
    row = {"question": "Is {answer} {x}?", "answer": 4, "topic": "{prompt}", "choices": ["é", 1], "none": None}
    other = jsonl(tmp_path / "other.jsonl", [row | {"question": "Another?", "answer": 5}])
    (item,) = load(tmp_path, [row], held_out=other, instruction=instruction).items["train"]
    assert (item.prompt, item.given) == (prompt, "Is {answer} {x}?")


TURN = {"role": "user", "content": "Hi"}


@pytest.mark.parametrize(
    ("prompt", "says"),
    [
        ("", "the prompt is empty."),
        (" \n", "the prompt is empty."),
        (None, "the prompt is empty."),
        ([], "the prompt is empty."),
        (3, "expected a text or a list of chat messages, found 3."),
        (TURN, 'expected a text or a list of chat messages, found {"role": "user"'),
        (["Hi"], 'expected {"role": …, "content": …} as message 1, found "Hi".'),
        ([TURN, {"from": "user", "value": "Hi"}], 'as message 2, found {"from": "user", "value": "Hi"}.'),
        (
            [{"role": "users", "content": "Hi"}],
            'message 1 has the role "users"; expected one of system, user, assistant',
        ),
        ([{"role": "users", "content": "Hi"}], "Did you mean 'user'?"),
        ([{"role": "user", "content": [{"type": "text", "text": "Hi"}]}], "message 1 has the content [{"),
        ([{"role": None, "content": "Hi"}], "message 1 has the role null"),
        (
            [TURN, {"role": "assistant", "content": "Ho"}],
            "the last message is the assistant's, which is for the policy",
        ),
    ],
)
def test_what_is_no_prompt_is_refused_with_its_row(tmp_path, prompt, says):
    found = refused(tmp_path, [{"prompt": "fine"}, {"prompt": prompt}, {"prompt": CHAT}])
    assert found.startswith(f"{tmp_path / 'own.jsonl'}: 1 of 3 rows can't be used.\n  row 2: Column 'prompt': ")
    assert says in found


def test_an_instruction_and_a_system_message_need_room(tmp_path):
    assert "row 1: Column 'prompt': task.instruction goes around a text, but the prompt is chat messages." in refused(
        tmp_path, [{"prompt": CHAT}], instruction="Please: {prompt}"
    )
    taken = [{"role": "system", "content": "Be kind."}, *CHAT]
    assert "the prompt has a system message already; expected one of the two" in refused(
        tmp_path, [{"prompt": taken}], system="Be quick."
    )
