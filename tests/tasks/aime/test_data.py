"""Reading problem data: little files of our own, written here. No contest text is in the project."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from botgrpo_cli.errors import InputError
from botgrpo_cli.tasks.aime.data import Problem, load_problems, split_problems, text_key, without
from botgrpo_cli.tasks.aime.hub import PRESETS, load_hub

HEADER = "ID,Question,Answer"
ROWS = ["a-1,Find one.,1", "a-6,Find none.,000", 'a-15,"Find $x$, if any.",80 or 081 (both were accepted)']
SHARED = Path(__file__).parents[3] / "../shared/data/aime_1983_2024.csv"


def csv_file(folder: Path, *lines: str, name: str = "own.csv", encoding: str = "utf-8") -> Path:
    path = folder / name
    path.write_bytes("\r\n".join(lines).encode(encoding))
    return path


def test_a_csv_is_read_as_text(tmp_path):
    loaded = load_problems(csv_file(tmp_path, HEADER, *ROWS))
    assert [(p.row, p.text, p.golds, p.level) for p in loaded.problems] == [
        ("row 1 (a-1)", "Find one.", {1}, "easy"),
        ("row 2 (a-6)", "Find none.", {0}, "medium"),
        ("row 3 (a-15)", "Find $x$, if any.", {80, 81}, "hard"),
    ]
    assert loaded.counts == {
        "rows": 3,
        "odd": 0,
        "figures_dropped": 0,
        "duplicates": 0,
        "problems": 3,
        "several_golds": 1,
        "zeros": 1,
        "figures_kept": 0,
    }


@pytest.mark.parametrize("title", ["Problems of our own", '"Problems, of our own",,', ",Problems,"])
def test_a_title_row_is_skipped(tmp_path, title):
    plain = load_problems(csv_file(tmp_path, HEADER, *ROWS))
    titled = load_problems(csv_file(tmp_path, title, HEADER, *ROWS))
    assert titled.problems == plain.problems


def test_byte_order_mark_blank_lines_and_breaks_in_cells(tmp_path):
    path = csv_file(tmp_path, HEADER, "", '1,"Two\r\nlines.",7', ",,", "2,NA,8", encoding="utf-8-sig")
    assert [(p.text, p.golds) for p in load_problems(path).problems] == [("Two\r\nlines.", {7}), ("NA", {8})]


RECORDS = [
    {"id": "a-1", "question": "Find one.", "answer": 1, "note": None},
    {"id": "a-2", "question": "Find none.", "answer": "000"},
    {"id": "a-3", "question": "Find two.", "answer": [80, 81]},
    {"id": "a-4", "question": "Find four.", "answer": 4.0},
]


@pytest.mark.parametrize("kind", ["json", "jsonl"])
def test_json_and_jsonl(tmp_path, kind):
    path = tmp_path / f"own.{kind}"
    text = json.dumps(RECORDS) if kind == "json" else "\n".join(json.dumps(record) for record in RECORDS) + "\n\n"
    path.write_text(text, encoding="utf-8")
    assert [p.golds for p in load_problems(path).problems] == [{1}, {0}, {80, 81}, {4}]


def test_parquet(tmp_path):
    import pyarrow
    import pyarrow.parquet

    columns = {"Problem": ["One.", "None.", "Four."], "Answer": [1.0, 0.0, 4.0]}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "own.parquet")
    loaded = load_problems(tmp_path / "own.parquet")
    assert [(p.row, p.golds) for p in loaded.problems] == [("row 1", {1}), ("row 2", {0}), ("row 3", {4})]
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(InputError, match="not a valid parquet file"):
        load_problems(tmp_path / "bad.parquet")


@pytest.mark.parametrize(
    ("header", "given"),
    [
        ("problem,solution,note", {}),
        ("QUESTION, Final_Answer ,note", {}),
        ("text,value,answer", {"problem_column": "text", "answer_column": "VALUE"}),
        ("question,problem,answer", {"problem_column": "question", "answer_column": "problem"}),
    ],
)
def test_columns_are_guessed_or_given(tmp_path, header, given):
    loaded = load_problems(csv_file(tmp_path, header, "Find one.,1,2"), **given)
    assert [(p.text, p.golds) for p in loaded.problems] == [("Find one.", {1})]


def test_a_solution_column_is_read_from_its_box_and_an_answer_column_comes_first(tmp_path):
    path = csv_file(tmp_path, "problem,solution", "Find one.,We get $2-1=\\boxed{001}$.")
    assert load_problems(path).problems[0].golds == {1}
    path = csv_file(tmp_path, "problem,solution,answer", "Find one.,We get \\boxed{7}.,1")
    assert load_problems(path).problems[0].golds == {1}


WRONG = [
    (["ID,Text,Answer", "1,x,2"], {}, ["no column looks like the problem", "Columns found: ID, Text, Answer"]),
    ([HEADER, *ROWS], {"answer_column": "Anser"}, ["no column 'Anser' for the answer", "Did you mean 'Answer'?"]),
    ([HEADER, *ROWS], {"answer_column": "question"}, ["'Question' was named for both"]),
    (["Question,answer,Answer", "x,1,2"], {}, ["several columns are called answer, Answer"]),
    (["Question,Answer,Answer", "x,1,2"], {"answer_column": "Answer"}, ["'Answer', taken for the answer, is there"]),
    ([HEADER], {}, ["holds no rows"]),
    ([], {}, ["holds no rows"]),
    ([HEADER, '1,"never closed,2'], {}, ["line 2: not valid csv"]),
    ([HEADER, *ROWS], {"split": "train"}, ["is a file"]),
    ([HEADER, "1,Find x.,a half"], {}, ["1 row can't", "row 1 (1): Column 'Answer': The answer 'a half' is not"]),
    ([HEADER, "1,Find x.,"], {}, ["The answer is empty"]),
    ([HEADER, "1, ,3"], {}, ["Column 'Question': the problem is empty"]),
    ([HEADER, "1,Find x.,3,4"], {}, ["The row has 4 cells where the header has 3"]),
    ([HEADER, "1,Find x."], {}, ["The row has 2 cells where the header has 3"]),
    ([HEADER, *(f"{n},Find {n}.,?" for n in range(30))], {}, ["30 rows can't be used", "and 20 more", "skip_odd"]),
    ([HEADER, "1,x.png,3"], {}, ["none of its 1 rows holds a problem"]),
]


@pytest.mark.parametrize(("lines", "given", "says"), WRONG)
def test_what_is_wrong_is_named_with_its_file(tmp_path, lines, given, says):
    path = csv_file(tmp_path, *lines)
    with pytest.raises(InputError) as caught:
        load_problems(path, **given)
    assert str(path) in str(caught.value)
    for part in says:
        assert part in str(caught.value)


FILES = [
    ("own.txt", b"x", "files of kind '.txt' can't be read"),
    ("own.cvs", b"x", "Did you mean '.csv'?"),
    ("own.csv", b"Question,Answer\nna\xefve,1\n", "is not UTF-8 text (byte 18)"),
    ("own.json", b'{"a": 1}', "expected a JSON list"),
    ("own.json", b"[1]", "expected a JSON list"),
    ("own.json", b"[", "not valid JSON"),
    ("own.json", b"[" * 100_000, "JSON"),
    ("own.jsonl", b'{"a": 1}\n[2]\n', "line 2: expected a JSON object"),
    ("own.jsonl", b'{"a": 1}\n{"a"\n', "line 2: not valid JSON"),
]


@pytest.mark.parametrize(("name", "data", "says"), FILES)
def test_files_that_cannot_be_read(tmp_path, name, data, says):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError) as caught:
        load_problems(tmp_path / name)
    assert says in str(caught.value)
    assert name in str(caught.value)


def test_a_missing_file_names_its_neighbour(tmp_path):
    csv_file(tmp_path, HEADER, *ROWS)
    with pytest.raises(InputError, match=r"owm\.csv does not exist\. Did you mean 'own\.csv'\?"):
        load_problems(tmp_path / "owm.csv")


def test_odd_rows_are_skipped_and_counted_when_asked(tmp_path):
    path = csv_file(tmp_path, HEADER, ROWS[0], "x-2,Find pi.,3.14", "x-3,,5", *ROWS[1:], "x-6,Find one.,2")
    loaded = load_problems(path, skip_odd=True)
    assert [p.golds for p in loaded.problems] == [{1}, {0}, {80, 81}]
    assert [odd.row for odd in loaded.odd] == ["row 2 (x-2)", "row 3 (x-3)", "row 6 (x-6)"]
    assert "row 1 (a-1) has the same problem and another answer" in loaded.odd[2].reason
    assert loaded.counts["odd"] == 3
    assert loaded.counts["rows"] == 6


def test_figures_and_duplicates(tmp_path):
    lines = [
        "1,Find $AB$. Own Problem 1.png,5",
        "2,Find CD. ![](https://example.org/a.SVG),6",
        "3,Find EF. [asy] draw(E--F); [/asy] see a.png,7",
        "4,Find $GH$ .,8",
        "5,find \\(GH\\).,008",
    ]
    loaded = load_problems(csv_file(tmp_path, HEADER, *lines))
    assert loaded.figures == ("row 1 (1)", "row 2 (2)")
    assert loaded.duplicates == ("row 5 (5)",)
    assert [p.row for p in loaded.problems] == ["row 3 (3)", "row 4 (4)"]
    assert (loaded.counts["figures_dropped"], loaded.counts["figures_kept"], loaded.counts["duplicates"]) == (2, 1, 1)


def some_problems(count: int) -> list[Problem]:
    texts = [f"Find the number {n}." for n in range(count)]
    return [Problem(text_key(text), f"row {n}", text, frozenset({n % 1000}), "easy") for n, text in enumerate(texts)]


def test_the_split_depends_on_seed_and_text_alone():
    problems = some_problems(2_000)
    train, held_out = split_problems(problems, seed=0, share=0.1)
    assert len(train) + len(held_out) == 2_000
    assert abs(len(held_out) - 200) < 4 * (2_000 * 0.1 * 0.9) ** 0.5
    again = split_problems(reversed(problems[:500]), seed=0, share=0.1)
    assert set(again[1]) == set(held_out) & set(problems[:500])
    assert split_problems(problems, seed=1, share=0.1)[1] != held_out
    assert set(held_out) <= set(split_problems(problems, seed=0, share=0.2)[1])


def test_the_ends_of_the_share():
    problems = some_problems(50)
    assert split_problems(problems, seed=0, share=0.0) == (tuple(problems), ())
    assert split_problems(problems, seed=0, share=1.0) == ((), tuple(problems))
    with pytest.raises(ValueError, match="from 0 to 1"):
        split_problems(problems, seed=0, share=1.5)


def test_ids_are_unique_and_the_same_from_another_source(tmp_path):
    first = load_problems(csv_file(tmp_path, HEADER, *ROWS)).problems
    other = load_problems(csv_file(tmp_path, "answer,problem", "1,FIND ONE.", "3,Find three."), skip_odd=False).problems
    assert len({p.id for p in first}) == 3
    assert other[0].id == first[0].id
    assert without(first, other) == first[1:]


def test_prompts_carry_the_golds(tmp_path):
    prompts = [problem.prompt for problem in load_problems(csv_file(tmp_path, HEADER, *ROWS)).problems]
    assert [(p.text, p.level, p.asks) for p in prompts] == [
        ("Find one.", "easy", ("1",)),
        ("Find none.", "medium", ("0",)),
        ("Find $x$, if any.", "hard", ("80", "81")),
    ]
    assert all(p.id.startswith("aime-") for p in prompts)


def test_levels_by_number(tmp_path):
    lines = [f"Find {n}.,{n},{n}" for n in (1, 5, 6, 11, 15, 16, 30)] + ["Find 0.,0,0", "Find x.,1,x", "Find y.,1,"]
    loaded = load_problems(csv_file(tmp_path, "Question,Answer,Problem Number", *lines))
    levels = ["easy", "easy", "medium", "hard", "hard", "easy", "hard", "medium", "medium", "medium"]
    assert [p.level for p in loaded.problems] == levels


def test_a_folder_goes_through_the_datasets_library(tmp_path):
    folder = tmp_path / "own"
    folder.mkdir()
    csv_file(folder, "problem,answer", "Find one.,1", "Find none.,000", name="train.csv")
    table, preset = load_hub(str(folder), cache=tmp_path / "cache")
    assert preset is None
    assert table.columns == ("problem", "answer")
    assert [row.cells["answer"] for row in table.rows] == ["1", "0"]
    with pytest.raises(InputError, match=r"split 'tset'.* could not be loaded"):
        load_hub(str(folder), split="tset", cache=tmp_path / "cache")


def test_a_hub_data_set_without_a_connection_says_what_to_do():
    with pytest.raises(
        InputError, match=r"math-ai/aime52 \(split 'train'\).*Did you mean 'math-ai/aime25'\?.*download"
    ):
        load_problems("math-ai/aime52")


def test_presets_name_what_they_need():
    assert len(PRESETS) == 8
    for name, preset in PRESETS.items():
        assert name.count("/") == 1
        assert preset.split in ("train", "test")
        assert preset.problem.lower() in ("problem", "question")
        assert preset.answer.lower() in ("answer", "solution")
        assert preset.configs


@pytest.mark.skipif(not SHARED.exists(), reason="a copy of the AIME problems for trials lies beside the project only")
def test_the_copy_beside_the_project():
    loaded = load_problems(SHARED)
    counts = loaded.counts
    assert (counts["rows"], counts["odd"], counts["several_golds"], counts["zeros"]) == (933, 0, 1, 2)
    assert counts["problems"] == 933 - counts["figures_dropped"] - counts["duplicates"]
    train, held_out = split_problems(loaded.problems, seed=0, share=0.1)
    assert len(train) + len(held_out) == counts["problems"]
