"""The real esbuild and ESLint in the real Node workers: what compiles, what is found, and what tries to break them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from botgrpo_cli.errors import RunError
from botgrpo_cli.tasks.react.toolchain import ensure_toolchain, toolchain_directory
from botgrpo_cli.tasks.react.workers import CheckResult, ReactChecker, isolation
from tests.real.react_code import ENDLESS, GOOD, distinct, group_members

LINE_5 = "\n" * 4  # puts what follows on line 5, which is 4 when counted from 0


@pytest.fixture(scope="module")
def checker() -> Iterator[ReactChecker]:
    with ReactChecker(2, timeout=60) as made:
        yield made


def errors(result: CheckResult) -> list[tuple[int | None, str]]:
    return [(error.line, error.rule) for error in result.errors]


def test_a_good_component_is_clean(checker):
    assert checker.submit(GOOD).result() == CheckResult(parsed=True, markup=True)


@pytest.mark.parametrize(
    "code",
    [
        "const App = () => <p />;",
        "class App extends Object { render() { return <p />; } }",
        "const Page = () => <p />;\nexport { Page as default };",
        "import { memo } from 'react';\nexport default memo(() => <p />);",
        "import { createRoot } from 'react-dom/client';\ncreateRoot(document.body).render(<p />);",
        "import React from 'react';\nexport default () => React.createElement('p');",
        "import './App.css';\nimport logo from './logo.svg';\nexport default () => <img src={logo} alt='logo' />;",
        "import React, { FC } from 'react';\nconst A: FC<{ n: number }> = ({ n }) => <p>{n}</p>;\nexport default A;",
    ],
)
def test_forms_of_a_component(checker, code):
    result = checker.submit(code).result()
    assert result.compiled, result.errors


@pytest.mark.parametrize(
    "package",
    ["fs", "node:fs", "http", "lodash", "http://x.test/a.js", "https://x.test/a.js", "data:text/plain,1"],
)
def test_packages_that_are_not_there(checker, package):
    result = checker.submit(f"{LINE_5}import thing from '{package}';\n{GOOD}").result()
    assert errors(result) == [(4, "import")]
    assert package in result.errors[0].message


@pytest.mark.parametrize("path", ["./Button", "../Button", "/etc/passwd", "./data.json", "../../secret.txt"])
def test_files_that_are_not_there(checker, path):
    assert errors(checker.submit(f"{LINE_5}import '{path}';\n{GOOD}").result()) == [(4, "import")]


@pytest.mark.parametrize(
    "statement",
    [
        "require('fs');",
        "const fs = 'fs'; require(fs);",
        "import('./a');",
        "const a = 'a'; import(a);",
        "import('react');",
    ],
)
def test_require_and_dynamic_import(checker, statement):
    result = checker.submit(f"{GOOD}{statement}").result()
    assert set(errors(result)) == {(6, "import")}


def test_an_unused_import_of_typescript_code_is_still_checked(checker):
    code = f"import thing from 'bogus';\n{GOOD}\ninterface Props {{\n  a: number;\n}}\nexport type {{ Props }};\n"
    result = checker.submit(code).result()
    assert errors(result) == [(0, "import")]
    assert result.language == "tsx"


@pytest.mark.parametrize("types", ["", "type T = string;\n\ninterface P { a: T }\n"])
@pytest.mark.parametrize("use", ["import { useFoo } from 'react';", "import * as R from 'react'; R.useFoo();"])
def test_names_that_react_does_not_have(checker, types, use):
    result = checker.submit(f"{types}{use}\n{GOOD}").result()
    assert errors(result) == [(types.count("\n"), "export")]
    assert "useFoo" in result.errors[0].message


@pytest.mark.parametrize(
    "code", ["", " \n", "// nothing", "/* nothing */\n", "export const a = <p />;", "const Page = () => <p />;"]
)
def test_no_component(checker, code):
    result = checker.submit(code).result()
    assert errors(result) == [(None, "component")]


@pytest.mark.parametrize(
    "export", ["5", "'App'", "{}", "<p />", "App", "null", "[() => <p />]", "`<p />`", "undefined"]
)
def test_default_exports_that_are_no_component(checker, export):
    result = checker.submit(f"const a = <p />;\nexport default {export};").result()
    assert errors(result) == [(1, "component")]


@pytest.mark.parametrize("code", ["export default () => null;", "export default function App() { return 'hi'; }"])
def test_a_component_without_any_jsx(checker, code):
    result = checker.submit(code).result()
    assert not result.compiled
    assert not result.markup


def test_a_syntax_error_has_its_line_and_those_after_it(checker):
    code = GOOD.replace("useState(0)", "useState(0") + "\nconst tail = ;\n"
    result = checker.submit(code).result()
    assert {rule for _, rule in errors(result)} == {"syntax"}
    assert {3, 7} <= {line for line, _ in errors(result)}
    assert not result.parsed


def test_lint_findings_have_line_rule_and_severity(checker):
    code = GOOD.replace("{count}<", "{missing}<").replace("onClick", "class='a' onClick")
    result = checker.submit("const unused = 1;\n" + code).result()
    found = {(f.line, f.rule, f.severity) for f in result.findings}
    assert (0, "no-unused-vars", "warning") in found
    assert (5, "no-undef", "error") in found
    assert (5, "react/no-unknown-property", "error") in found
    assert result.compiled


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("const [", "if (window.a) useState(1);\n  const [", "react-hooks/rules-of-hooks"),
        ("{count}", "{[1].map((n) => <i>{n}</i>)}", "react/jsx-key"),
        ("{count}", "<img src='a.png' />", "jsx-a11y/alt-text"),
    ],
)
def test_every_plugin_reports(checker, old, new, rule):
    result = checker.submit(GOOD.replace(old, new)).result()
    assert rule in [finding.rule for finding in result.findings]


@pytest.mark.parametrize(
    "comment",
    ["/* eslint-disable */", "// eslint-disable-next-line", "/* eslint no-undef: 0 */", "/* global missing*/"],
)
def test_comments_do_not_switch_the_linter_off(checker, comment):
    result = checker.submit(f"{comment}\nexport default () => <p>{{missing}}</p>;").result()
    assert "no-undef" in [finding.rule for finding in result.findings]


def test_a_pragma_cannot_bring_in_a_package(checker):
    result = checker.submit(f"/** @jsxImportSource evil */\n{GOOD}").result()
    assert [rule for _, rule in errors(result)] == ["import"]


@pytest.mark.parametrize(
    "code",
    [
        "(" * 10_000,
        "[" * 60_000,
        "!" * 60_000 + "1",
        "<a>" * 20_000,
        "a=>" * 20_000 + "a",
        "x = " + "a&&b||" * 9_000 + "c",
        "x" + ".map(a => a)" * 4_000,
        GOOD + "<p>" * 2_500 + "</p>" * 2_500,
        "x" * 1_000_000,
        "\0" + GOOD,
        "\ud800" + GOOD,
        GOOD.replace("{count}", "\0\udfff\ud800"),
        "\u2028" * 1000 + GOOD,
        "//# sourceMappingURL=/etc/passwd\n" + GOOD,
    ],
    ids=lambda code: ascii(code[:12]),
)
def test_hostile_text_is_answered_by_the_same_workers(checker, code):
    before = checker.pids
    result = checker.submit(code).result()
    assert not result.crashed
    assert checker.submit(distinct(len(code))).result().compiled
    assert checker.pids == before


def test_the_same_code_is_checked_once(checker):
    first = checker.submit(distinct(-1))
    assert checker.submit(distinct(-1)) is first
    assert checker.submit(distinct(-2)) is not first


def test_workers_have_no_network_where_the_machine_can_take_it_away(checker):
    own = os.readlink("/proc/self/ns/net")
    theirs = {os.readlink(f"/proc/{pid}/ns/net") for pid in checker.pids}
    assert (own not in theirs) == bool(isolation())


def test_a_worker_killed_in_the_middle_of_a_batch_costs_nothing():
    with ReactChecker(2, timeout=60) as checker:
        futures = [checker.submit(distinct(n)) for n in range(24)]
        futures[0].result()
        for pid in checker.pids:
            os.killpg(pid, signal.SIGKILL)
        results = [future.result() for future in futures]
    assert all(result.compiled for result in results)


def test_a_stopped_worker_is_replaced_and_its_sample_tried_again():
    with ReactChecker(1, timeout=6) as checker:
        checker.submit(GOOD).result()
        (stopped,) = checker.pids
        os.kill(stopped, signal.SIGSTOP)
        assert checker.submit(distinct(1) + " " * 1_000_000).result().compiled  # more than a pipe would take
        assert stopped not in checker.pids
        assert group_members(stopped) == []


def test_a_sample_that_hangs_twice_counts_as_crashed_and_the_batch_goes_on():
    with ReactChecker(1, timeout=6) as checker:
        hanging, after = checker.submit(ENDLESS), checker.submit(distinct(2))
        assert hanging.result() == CheckResult(crashed=True)
        assert not hanging.result().compiled
        assert after.result().compiled


def test_closing_leaves_no_process():
    checker = ReactChecker(2, timeout=60)
    checker.submit(GOOD).result()
    pids = checker.pids
    assert len(pids) == 2
    waiting = [checker.submit(ENDLESS), *(checker.submit(distinct(n)) for n in range(20))]
    checker.close()
    checker.close()
    assert [group_members(pid) for pid in pids] == [[], []]
    assert checker.pids == []
    assert all(future.done() for future in waiting)


ORPHANS = """
import os, signal, sys
from botgrpo_cli.tasks.react.workers import ReactChecker
checker = ReactChecker(2, timeout=60)
checker.submit("export default () => <p />;").result()
checker.submit(sys.argv[1])
print(*checker.pids, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("busy", [GOOD, ENDLESS], ids=["idle", "busy"])
def test_workers_end_when_their_parent_is_killed(busy):
    done = subprocess.run([sys.executable, "-c", ORPHANS, busy], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    pids = [int(word) for word in done.stdout.split()]
    assert len(pids) == 2
    # They notice within two seconds; pidfds become readable when a process ends, so this waits no longer than needed.
    for pid in pids:
        wait_for_end(pid)
        for child in group_members(pid):  # esbuild ends when its input does, a moment after the worker
            wait_for_end(child)
    assert [group_members(pid) for pid in pids] == [[], []]


def wait_for_end(pid: int, seconds: float = 60) -> None:
    import select

    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended, _, _ = select.select([handle], [], [], seconds)
    os.close(handle)
    assert ended, f"process {pid} outlived its parent"


def break_package(monkeypatch: pytest.MonkeyPatch, cache: Path, package: str, source: str) -> None:
    """Makes a toolchain of the real packages with one of them replaced, and has it found."""
    real = ensure_toolchain() / "node_modules"
    monkeypatch.setenv("BOTGRPO_CACHE", str(cache))
    modules = toolchain_directory() / "node_modules"
    modules.mkdir(parents=True)
    (modules.parent / "package.json").write_text("{}")
    for entry in real.iterdir():
        if entry.name != package:
            (modules / entry.name).symlink_to(entry)
    (modules / package).mkdir()
    (modules / package / "index.js").write_text(source)
    (modules / package / "package.json").write_text('{"name": "fake", "version": "0.0.0", "main": "index.js"}')


RULES = "module.exports = { rules: { 'rules-of-hooks': rule, 'exhaustive-deps': rule } };"


@pytest.mark.parametrize(
    ("package", "source", "message"),
    [
        (
            "eslint-plugin-react-hooks",
            "const rule = { meta: {}, create: () => ({}) };" + RULES,
            "does not report react-hooks/rules-of-hooks",
        ),
        (
            "eslint-plugin-react-hooks",
            "const rule = { meta: {}, create() { throw new Error('out of order'); } };" + RULES,
            "out of order",
        ),
        ("esbuild", "throw new Error('damaged');", r"damaged.*botgrpo setup react"),
    ],
    ids=["a silent rule", "a rule that throws", "a package that does not load"],
)
def test_broken_tools_stop_the_run(monkeypatch, tmp_path, package, source, message):
    break_package(monkeypatch, tmp_path, package, source)
    with ReactChecker(1, timeout=60) as checker:
        futures = [checker.submit(GOOD), checker.submit(distinct(3))]
        for future in futures:
            with pytest.raises(RunError, match=message):
                future.result()


@pytest.mark.parametrize(
    ("code", "opening"),
    [
        ("```jsx\n" + GOOD, 0),  # a fence within the block: to the parser, a template that never ends
        (f"{LINE_5}const note = `to be done;\n{GOOD}", 4),
        (f"{LINE_5}/* to be done\n{GOOD}", 4),
        (LINE_5 + 'const A = () => <p className="box>x</p>;\nexport default A;\n', 4),
    ],
    ids=["fence", "template", "comment", "attribute"],
)
def test_text_that_never_ends_is_blamed_where_it_begins(checker, code, opening):
    found = checker.submit(code).result()
    assert not found.compiled
    assert {line for line, _ in errors(found)} == {opening}
