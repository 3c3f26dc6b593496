from __future__ import annotations

from random import Random

import pytest

from botgrpo_cli.tasks.react.workers import ReactChecker
from botgrpo_cli.tiny import damage as damages
from botgrpo_cli.tiny import react


def sources(count: int) -> list[str]:
    return [react.write(task, Random(number)) for number, task in enumerate(react.tasks("train")[:count])]


def test_no_damage_at_zero() -> None:
    for source in sources(50):
        assert damages.damage(Random(0), source, 0.0) == (source, 0)


def test_every_non_blank_line_is_damaged_at_one() -> None:
    for source in sources(50):
        text, count = damages.damage(Random(1), source, 1.0)
        assert count == sum(bool(line.strip()) for line in source.splitlines())
        assert text != source


@pytest.mark.parametrize("probability", [0.1, 0.3])
def test_the_rate_is_the_probability(probability: float) -> None:
    rng, damaged, lines = Random(2), 0, 0
    for source in sources(600):
        damaged += damages.damage(rng, source, probability)[1]
        lines += sum(bool(line.strip()) for line in source.splitlines())
    error = (probability * (1 - probability) / lines) ** 0.5
    assert abs(damaged / lines - probability) < 4 * error


def test_every_kind_occurs_and_changes_the_line() -> None:
    rng, seen = Random(3), set()
    for source in sources(400):
        for line in source.splitlines():
            if line.strip():
                damaged, kind = damages.damage_line(rng, line)
                assert damaged != line
                seen.add(kind)
    assert seen == {kind.__name__ for kind in damages.KINDS}


def test_the_same_seed_gives_the_same_damage() -> None:
    source = sources(1)[0]
    assert damages.damage(Random(4), source, 0.5) == damages.damage(Random(4), source, 0.5)


@pytest.mark.parametrize(
    ("kind", "line", "expected"),
    [
        (damages.drop_key, "  <li key={item}>{item}</li>", "  <li>{item}</li>"),
        (damages.empty_handler, "<button onClick={() => setOpen(!open)}>Go</button>", "<button onClick={}>Go</button>"),
        (damages.drop_comma, "const [a, b] = x;", "const [a b] = x;"),
        (damages.drop_tag, "    </div>", "    "),
        (damages.html_attribute, '<p className="a">', '<p class="a">'),
        (damages.drop_slash, "<br />", "<br >"),
        (damages.drop_comma, "  );", None),
        (damages.bogus_import, "  return (", None),
    ],
)
def test_a_kind_does_what_its_name_says(kind: damages.Damage, line: str, expected: str | None) -> None:
    assert kind(Random(0), line) == expected


def test_most_damaged_lines_break_the_compile_and_more_the_lint(checker: ReactChecker) -> None:
    rng, futures = Random(5), []
    for source in sources(120):
        lines = source.splitlines()
        at = rng.choice([number for number, line in enumerate(lines) if line.strip()])
        lines[at], _ = damages.damage_line(rng, lines[at])
        futures.append(checker.submit("\n".join(lines) + "\n"))
    results = [future.result() for future in futures]
    broken = sum(not result.compiled for result in results) / len(results)
    found = sum(not result.compiled or bool(result.findings) for result in results) / len(results)
    assert 0.6 < broken < 0.95  # some damage only a linter finds
    assert found > max(0.8, broken)
