"""Content asks on hand-written components: what must be found, and what must not be taken for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from botgrpo_cli.tasks.react.content import check_asks, content_share, vocabulary
from botgrpo_cli.tasks.react.jsx import scan

COUNTER = """import { useState } from 'react';
export default function Counter() {
  const [count, setCount] = useState(0);
  return <div><p>Visitors: {count}</p><button onClick={() => setCount(count + 1)}>Add</button></div>;
}
"""
TODO = """import { useState } from 'react';
const START = [{ id: 1, label: 'Buy milk', done: false }];
function Item({ label, done }) {
  return <li style={{ opacity: done ? 0.5 : 1 }}>{label}</li>;
}
export default function App() {
  const [items, setItems] = useState(START);
  const [draft, setDraft] = useState("");
  const submit = (event) => {
    event.preventDefault();
    setItems([...items, { id: items.length + 1, label: draft, done: false }]);
  };
  return (
    <form onSubmit={submit}>
      <h1>Today's tasks</h1>
      <input placeholder="What next?" value={draft} onChange={(e) => setDraft(e.target.value)} />
      {items.length === 0 && <em>Nothing to do</em>}
      <ul>{items.filter((i) => !i.done).map((i) => <Item key={i.id} label={i.label} done={i.done} />)}</ul>
    </form>
  );
}
"""
CASES = [
    ("counter", COUNTER, ("element:button", "state", "event:click", "text:visitors"), 1.0),
    ("counter for a table", COUNTER, ("element:table", "map", "state", "element:button"), 0.5),
    ("todo", TODO, ("form", "event:submit", "event:change", "element:list", "map"), 1.0),
    ("todo features", TODO, ("filter", "conditional", "props", "style", "element:heading"), 1.0),
    ("apostrophe in text opens no string", TODO, ("text:tasks", "text:next", "element:input"), 1.0),
    ("what todo lacks", TODO, ("checkbox", "select", "timer", "storage", "element:img"), 0.0),
    ("import alone is no state", "import { useState } from 'react'; export default () => <p>hi</p>", ("state",), 0.0),
    ("typed state", "const [a] = useState<string>('');", ("state",), 1.0),
    ("reducer is state", "const [s, send] = useReducer(step, 0);", ("state",), 1.0),
    ("line comment", "// <table> useState(0) reset\nexport default () => <p/>", ("element:table", "state"), 0.0),
    ("block comment", "/* <form onSubmit> */ export default () => <p/>", ("form", "event:submit"), 0.0),
    ("JSX comment", "export default () => <p>{/* reset <button> */}</p>", ("text:reset", "element:button"), 0.0),
    ("open comment", "export default () => <p/> /* <select", ("select",), 0.0),
    ("slashes in text are text", "export default () => <p>https://a.b reset</p>", ("text:reset",), 1.0),
    ("slashes in a string", "const u = 'https://a.b'; const A = () => <img src={u} />", ("element:img",), 1.0),
    ("code in a string", "const s = '<button onClick={f}>useState(0)';", ("element:button", "state"), 0.0),
    ("code in a template", "const s = `<table>${n}.map(`;", ("element:table", "map"), 0.0),
    ("identifier is no text", "const reset = () => set(0); const A = () => <b onClick={reset}/>", ("text:reset",), 0.0),
    ("class name is no text", "const A = () => <b className='reset' id=\"reset\"/>", ("text:reset",), 0.0),
    ("class expression is no text", "const A = () => <b className={on ? 'reset' : ''}/>", ("text:reset",), 0.0),
    ("label and string are text", "<b title='Reset'>{on ? 'On' : `Off`}</b>", ("text:reset", "text:off"), 1.0),
    ("part of a word", "const A = () => <b>Presets online</b>", ("text:reset", "text:on"), 0.0),
    ("types", "const A = () => <><input type='checkbox'/><input type={\"range\"}/></>", ("checkbox", "slider"), 1.0),
    ("type by expression", "<input type={show ? 'text' : 'password'} />", ("password",), 1.0),
    ("type in data", "const fields = [{ type: 'date' }, { type: 'color' }];", ("date-input", "color-input"), 1.0),
    ("text field is no checkbox", "<input type='text' aria-label='checkbox' />", ("checkbox", "radio"), 0.0),
    ("clock", "useEffect(() => { setInterval(() => set(new Date()), 1000); }, []);", ("effect", "timer", "date"), 1.0),
    ("bar by width", "<div style={{ width: `${share}%` }} />", ("progress",), 1.0),
    ("bar by role", "<div role='progressbar' />", ("progress",), 1.0),
    ("window key", "window.addEventListener('keydown', move)", ("event:key",), 1.0),
    ("no JSX", "createElement('button', { onClick: f }, 'Go')", ("element:button", "event:click", "text:go"), 1.0),
    ("less-than is no tag", "for (let i = 0; i <button; i++) {}", ("element:button",), 0.0),
    ("nullish is no condition", "const a = b ?? c; const d = e?.f; function g(x?: string) {}", ("conditional",), 0.0),
    ("map argument is no prop", "const A = () => <ul>{rows.map(({ id }) => <li key={id}/>)}</ul>", ("props",), 0.0),
    ("arrow with props", "export const Card = memo(({ title }) => <h2>{title}</h2>)", ("props",), 1.0),
    ("quote in a regular expression", "const r = /[\"'/]/; const A = () => <p>Go</p>", ("text:go",), 1.0),
    ("division", "const half = a / 2; const B = () => <p>b / c</p>; const q = d / e;", ("text:c", "element:link"), 0.5),
    ("nothing asked", "", (), 1.0),
    ("nothing there", "", ("state",), 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("code", "asks", "share"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_share(code: str, asks: tuple[str, ...], share: float) -> None:
    assert content_share(code, asks) == share


ALL = (*vocabulary(), "text:reset")
HOSTILE = ["<", "</", "<a", "<a>{", "{", "}", "`${", "`", "/", "/[", "=/a", "'", '"', "\\", "/*", "A=(", "\0", "\ud800"]


@pytest.mark.parametrize("unit", HOSTILE, ids=ascii)
def test_hostile_text_is_scanned_to_its_end(unit: str) -> None:
    code = unit * (30_000 // len(unit))
    assert 0.0 <= content_share(code, ALL) <= 1.0


def test_megabyte() -> None:
    body = "<p>{count} {/* reset */} people's</p>\n" * 27_000
    code = "export default () => <main>" + body + "<button>End</button></main>"
    assert len(code) > 1_000_000
    assert content_share(code, ("element:button", "text:end", "text:reset", "element:table")) == 0.5


@given(st.text(alphabet="<>/{}`'\"\\$=(a \n*[]?:&\0\ud800", max_size=80))
def test_no_text_raises(code: str) -> None:
    assert 0.0 <= content_share(code, ALL) <= 1.0


@given(st.text(max_size=60))
def test_comment_adds_nothing(words: str) -> None:
    words = words.replace("*/", "")
    with_comment = scan(f"export default () => <p>{{/* {words}<table> */}}x</p>")
    assert (with_comment.words, with_comment.tags) == (frozenset({"x"}), frozenset({"p"}))


@pytest.mark.parametrize("ask", ["element:buton", "click", "text:Reset", "text:", "text:two words", "state:", ""])
def test_unknown_ask(ask: str) -> None:
    with pytest.raises(ValueError, match="outside the content vocabulary"):
        check_asks([ask])
    with pytest.raises(ValueError, match="outside the content vocabulary"):
        content_share("anything", ("state", ask))


def test_unknown_ask_suggests_the_nearest() -> None:
    with pytest.raises(ValueError, match="Did you mean 'element:button'"):
        check_asks(["element:buton"])


def test_every_closed_ask_can_be_met() -> None:
    code = """
    const X = createContext(null);
    export default function App({ start }) {
      const [s, set] = useState(localStorage.getItem("s") ?? Math.random());
      useEffect(() => { setTimeout(() => set(new Date()), 9); }, []);
      const rows = [1].filter(Boolean).sort().map((n) => <li key={n} style={{ width: n }}>{s ? n : null}</li>);
      return <><header/><nav><a/></nav><h2/><svg/><img/><ul>{rows}</ul><table/><footer/><form onSubmit={f}><label/>
        <textarea/><select/><button onClick={f} onDoubleClick={f} onMouseEnter={f} onDrop={f}/>
        <input onChange={f} onKeyDown={f} type="checkbox"/><input type="radio"/><input type="range"/>
        <input type="password"/><input type="date"/><input type="color"/></form></>;
    }"""
    assert [ask for ask in vocabulary() if content_share(code, (ask,)) < 1] == []
    assert [ask for ask in vocabulary() if content_share("export default () => <p>x</p>", (ask,)) > 0] == []
