from __future__ import annotations

import re

import pandas as pd
import pytest
from typer.testing import CliRunner

from botgrpo_cli.app import app
from botgrpo_cli.errors import InputError
from botgrpo_cli.judges.pairwise import summarise
from botgrpo_cli.plots import draw_winrate, save_figure
from botgrpo_cli.winrate.gallery import gallery
from botgrpo_cli.winrate.tables import COLUMNS, read_table, row_of, write_table
from tests.winrate.pages import StandIn, pair

HOSTILE = "</pre><script>alert(1)</script><img src=http://a.b/x onerror=alert(1)>"


def page(*pairs, names=("ours", "theirs")):
    return gallery("ours against theirs", names, [("judge", HOSTILE)], [((20, 20), list(pairs))])


def test_pairs_stand_under_their_result_with_both_pictures():
    text = page(pair(1.0, name="p1"), pair(0.0, name="p2"), pair(1.0, name="p3"), pair(None, name="p4"))
    headings = re.findall(r"<h2>(.*?)</h2>", text)
    assert headings == ["ours wins, step 20 (2)", "theirs wins, step 20 (1)", "Invalid pairs, step 20 (1)"]
    assert text.count("<img ") == 8
    assert text.index("p3") < text.index("p2") < text.index("p4")
    assert text.count('class="won"') == 3


def test_nothing_that_was_written_becomes_markup():
    text = page(pair(0.5, brief=HOSTILE, sources=(HOSTILE, HOSTILE)), names=("ours", HOSTILE))
    assert "<script" not in text
    assert "onerror=alert(1)&gt;" in text
    assert re.findall(r"<img [^>]*>", text) == re.findall(r'<img loading="lazy" alt="[^"]*" src="data:[^"]*">', text)
    assert "default-src 'none'" in text


def test_who_has_nothing_to_show_says_why():
    text = page(pair(1.0, problem="It does not compile: Expected )"))
    assert "It does not compile: Expected )" in text
    assert "Not judged" in text
    assert text.count("<img ") == 1


class Judge:
    looks, shown, label = True, "screenshots", "heuristic"


def rows(*results, steps=(None, None), a="bot-grpo", b="grpo"):
    found = summarise([each.result for each in results])
    return row_of(StandIn("x", method=a), StandIn("y", method=b), steps, Judge(), len(results), found)


def test_a_row_reads_back_with_empty_cells_for_what_is_not_there(tmp_path):
    write_table(tmp_path / "t.csv", [rows(pair(1.0), pair(0.5, name="p2")), rows(pair(None, votes=(None,) * 4))])
    table = read_table(tmp_path / "t.csv")
    assert list(table.columns) == list(COLUMNS)
    assert table["rate"].tolist()[0] == 0.75
    assert table.loc[1, ["win", "rate", "ci_low", "step_a"]].isna().all()
    assert (table.loc[1, "n"], table.loc[1, "invalid"]) == (0, 1)
    assert ",,," in (tmp_path / "t.csv").read_text()
    (tmp_path / "m.csv").write_text("run,value\na,1\n")
    with pytest.raises(InputError, match="column 'run_a' is missing"):
        read_table(tmp_path / "m.csv")


def table_of(tmp_path, *given) -> pd.DataFrame:
    write_table(tmp_path / "t.csv", given)
    return read_table(tmp_path / "t.csv")


def texts(figure) -> str:
    return " ".join(text.get_text() for text in (*figure.axes[0].texts, *figure.texts))


def test_bars_show_won_tied_and_lost_with_ties_in_grey(tmp_path):
    pairs = [pair(share, name=f"p{number}") for number, share in enumerate((1.0, 1.0, 0.5, 0.0))]
    figure = draw_winrate(table_of(tmp_path, rows(*pairs)))
    assert [bar.get_width() for bar in figure.axes[0].patches] == [0.5, 0.25, 0.25]
    assert {"bot-grpo better", "grpo better", "win rate 62 %"} <= {t.get_text() for t in figure.axes[0].texts}
    assert "judge: heuristic" in texts(figure)
    save_figure(figure, tmp_path / "f", ["png", "svg", "pdf"])


def test_several_steps_become_a_curve_with_bars_of_ties(tmp_path):
    given = [rows(pair(1.0), pair(share, name="q"), steps=(step, step)) for step, share in ((10, 0.0), (20, 0.5))]
    figure = draw_winrate(table_of(tmp_path, *given))
    curve = next(line for line in figure.axes[0].get_lines() if "against grpo" in line.get_label())
    assert curve.get_xydata().tolist() == [[10, 0.5], [20, 0.75]]
    assert sorted(bar.get_height() for bar in figure.axes[0].patches)[-2:] == [0.0, 0.5]


def test_runs_go_by_their_labels_and_every_word_stands_inside_the_picture(tmp_path):
    given = [rows(pair(1.0), pair(0.0, name="q"), steps=(step, step)) for step in (10, 20)]
    figure = draw_winrate(table_of(tmp_path, *given), labels={"x": "Bag", "y": "Group of all"})
    [name] = [text for text in figure.axes[0].texts if "against Group of all" in text.get_text()]
    assert name.get_window_extent(figure.canvas.get_renderer()).x1 <= figure.bbox.x1
    assert figure.axes[0].get_title(loc="left") == "Win rate of Bag"


def test_nothing_valid_is_nothing_to_draw(tmp_path):
    with pytest.raises(InputError, match="no comparison has a valid pair"):
        draw_winrate(table_of(tmp_path, rows(pair(None, votes=(None,) * 4))))


def test_the_plot_command_draws_comparisons(tmp_path):
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
        write_table(folder / "winrate.csv", [rows(pair(1.0), pair(0.0, name="q"))])
    done = CliRunner().invoke(app, ["plot", str(folders[0]), "--format", "svg"])
    assert done.exit_code == 0, done.output
    assert (folders[0] / "figure.svg").is_file()
    done = CliRunner().invoke(app, ["plot", *map(str, folders), "--out", str(tmp_path / "both"), "--format", "svg"])
    assert (tmp_path / "both" / "figure.svg").is_file(), done.output
    assert "--out" in str(CliRunner().invoke(app, ["plot", *map(str, folders)]).exception)
