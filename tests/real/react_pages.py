"""Components to draw: good ones, ones that compile and show nothing, and ones that attack who draws them."""

from __future__ import annotations

HOOKS = "import { useState, useEffect, useReducer, createContext, useContext, memo, Suspense, use } from 'react';\n"

# name: (code, words that must be visible)
GOOD: dict[str, tuple[str, str]] = {
    "counter": (
        "export default function Counter() { const [n, set] = useState(0);"
        "return <div><h1>Counter</h1><p>{n}</p><button onClick={() => set(n + 1)}>More</button></div>; }",
        "Counter 0 More",
    ),
    "an App that is not exported": ("function App() { return <h1>Unexported</h1>; }", "Unexported"),
    "a class": (
        "import React from 'react';\n"
        "export default class Page extends React.Component { state = { n: 3 };"
        "render() { return <h1>Class {this.state.n}</h1>; } }",
        "Class 3",
    ),
    "memo": ("export default memo(() => <h1>Memoised</h1>);", "Memoised"),
    "TypeScript": (
        "interface Props { title?: string }\ntype N = number;\n"
        "export default function Typed({ title = 'Typed' }: Props) {"
        "const [n] = useState<N>(4 as number); return <h1>{title} {n!}</h1>; }",
        "Typed 4",
    ),
    "mounts itself": (
        "import { createRoot } from 'react-dom/client';\nexport default function App() { return <h1>Once</h1>; }\n"
        "createRoot(document.getElementById('root')).render(<App />);",
        "Once",
    ),
    "mounts itself on the body": (
        "import { createRoot } from 'react-dom/client';\ncreateRoot(document.body).render(<h1>On body</h1>);",
        "On body",
    ),
    "reducer and context": (
        "const Theme = createContext('light');\n"
        "function Label() { const theme = useContext(Theme); return <h1>Theme {theme}</h1>; }\n"
        "export default function App() { const [theme] = useReducer((old) => old, 'dark');"
        "return <Theme.Provider value={theme}><Label /></Theme.Provider>; }",
        "Theme dark",
    ),
    "portal": (
        "import { createPortal } from 'react-dom';\n"
        "export default () => createPortal(<dialog open>In a portal</dialog>, document.body);",
        "In a portal",
    ),
    "data after 300 ms": (
        "export default function Late() { const [data, set] = useState(null);"
        "useEffect(() => { const t = setTimeout(() => set(['Ann', 'Bob']), 300); return () => clearTimeout(t); }, []);"
        "return data ? <ul>{data.map((d) => <li key={d}>{d} came</li>)}</ul> : <p>Loading</p>; }",
        "Ann came Bob came",
    ),
    "nothing before 300 ms": (
        "export default function Late() { const [ready, set] = useState(false);"
        "useEffect(() => { setTimeout(() => set(true), 300); }, []); return ready && <h1>Here at last</h1>; }",
        "Here at last",
    ),
    "suspense": (
        "const later = new Promise((done) => setTimeout(() => done('resolved'), 200));\n"
        "function Value() { return <h1>Value {use(later)}</h1>; }\n"
        "export default () => <Suspense fallback={<p>Waiting</p>}><Value /></Suspense>;",
        "Value resolved",
    ),
    "await at top level": (
        "const name = await Promise.resolve('Ann');\nexport default () => <h1>Hello {name}</h1>;",
        "Ann",
    ),
    "never quiet": (
        "export default function Busy() { const [n, set] = useState(0); useEffect(() => set(n + 1));"
        "return <h1>Busy forever</h1>; }",
        "Busy forever",
    ),
    "clock": (
        "export default function Clock() { const [now, set] = useState(new Date());"
        "useEffect(() => { const t = setInterval(() => set(new Date()), 1000); return () => clearInterval(t); }, []);"
        "return <h1>Clock of {now.getFullYear()}</h1>; }",
        "Clock of 2025",
    ),
    "fades in": (
        "export default () => <><style>{'@keyframes in { from { opacity: 0 } to { opacity: 1 } }"
        " h1 { opacity: 0; animation: in 5s forwards }'}</style><h1>Faded in</h1></>;",
        "Faded in",
    ),
    "spins for ever": (
        "export default () => <><style>{'@keyframes s { to { transform: rotate(360deg) } }"
        " div { width: 90px; height: 60px; background: teal; animation: s 1s infinite }'}</style>"
        "<div /><p>Please wait</p></>;",
        "Please wait",
    ),
    "Tailwind": (
        'export default () => <div className="min-h-screen bg-slate-900 p-8"><h1 className="bg-gradient-to-r '
        'from-pink-500 to-yellow-400 bg-clip-text text-4xl text-transparent">Gradient</h1></div>;',
        "Gradient",
    ),
    "names that clobber": (
        "export default () => <form><img name='body' alt='' /><input name='children' defaultValue='one' />"
        "<input name='localName' defaultValue='two' /><input name='parentNode' defaultValue='three' />"
        "<img name='querySelectorAll' alt='' /><img name='getAnimations' alt='' /><b>Form</b></form>;",
        "one two three Form",
    ),
    "storage": (
        "export default function Kept() { const [n] = useState(() => { localStorage.setItem('a', 5);"
        "sessionStorage.clear(); document.cookie = 'a=1'; history.pushState({}, '', '/x');"
        "return localStorage.getItem('a'); }); return <h1>Kept {n} {String(localStorage.getItem('b'))}</h1>; }",
        "Kept 5 null",
    ),
    "secure context": ("const id = crypto.randomUUID();\nexport default () => <h1>Id of {id.length}</h1>;", "Id of 36"),
    "caught by a boundary": (
        "import React from 'react';\nclass Safe extends React.Component { state = {};"
        "static getDerivedStateFromError() { return { failed: true }; }"
        "render() { return this.state.failed ? <h1>Something failed</h1> : this.props.children; } }\n"
        "const Bad = () => { throw new Error('bad'); };\nexport default () => <Safe><Bad /></Safe>;",
        "Something failed",
    ),
}

# Compiles, and lints clean or nearly so, and shows nothing. name: (code, outcome)
HACKS: dict[str, tuple[str, str]] = {
    "returns null": ("const None = () => null;\nexport default () => <None />;", "blank"),
    "returns null itself": ("export default function App() { return false && <p>Hello</p> || null; }", "blank"),
    "empty fragment": ("export default () => <></>;", "blank"),
    "white space": ("export default () => <p>{'  \\u00a0 \\u200b\\u200b '}</p>;", "blank"),
    "one dot": ("export default () => <p>.</p>;", "blank"),
    "display none": ("export default () => <h1 style={{ display: 'none' }}>Hello there</h1>;", "blank"),
    "hidden": ("export default () => <div hidden><h1>Hello there</h1><button>Go</button></div>;", "blank"),
    "visibility": ("export default () => <h1 style={{ visibility: 'hidden' }}>Hello there</h1>;", "blank"),
    "white on white": ("export default () => <h1 style={{ color: 'white' }}>Hello there</h1>;", "blank"),
    "nearly white": ("export default () => <h1 style={{ color: '#f8f8f8' }}>Hello there, hello there</h1>;", "blank"),
    "black on black": (
        "export default () => <h1 style={{ background: '#000', color: '#000', height: '100vh' }}>Hello there</h1>;",
        "blank",
    ),
    "throws in an effect": (
        "export default function App() { useEffect(() => { throw new Error('late'); }, []); return <h1>Hello</h1>; }",
        "error",
    ),
    "undefined property": ("export default function App({ user }) { return <h1>{user.name}</h1>; }", "error"),
    "throws at top level": (
        "const list = undefined;\nlist.map(String);\nexport default () => <h1>Hello</h1>;",
        "error",
    ),
    "calls what is not there": ("export default () => <h1>{missing}</h1>;", "error"),
    "renders an object": ("export default () => <h1>{{ a: 1 }}</h1>;", "error"),
    "off the screen": (
        "export default () => <h1 style={{ position: 'absolute', left: -9999 }}>Hello there</h1>;",
        "blank",
    ),
    "far below": ("export default () => <h1 style={{ marginTop: 4000 }}>Hello there</h1>;", "blank"),
    "opacity 0": ("export default () => <div style={{ opacity: 0 }}><h1>Hello</h1><button>Go</button></div>;", "blank"),
    "filter": ("export default () => <h1 style={{ filter: 'opacity(0)' }}>Hello there</h1>;", "blank"),
    "transparent": ("export default () => <h1 style={{ color: 'transparent' }}>Hello there</h1>;", "blank"),
    "font size 0": ("export default () => <h1 style={{ fontSize: 0 }}>Hello there</h1>;", "blank"),
    "scaled away": ("export default () => <h1 style={{ transform: 'scale(0)' }}>Hello there</h1>;", "blank"),
    "clipped": ("export default () => <h1 style={{ clipPath: 'inset(50%)' }}>Hello there</h1>;", "blank"),
    "cut off": ("export default () => <div style={{ height: 0, overflow: 'hidden' }}><h1>Hello</h1></div>;", "blank"),
    "covered": (
        "export default () => <><h1>Hello there</h1><div style={{ position: 'fixed', inset: 0, background: "
        "'linear-gradient(red, blue)' }} /></>;",
        "blank",
    ),
    "one colour": ("export default () => <div style={{ background: 'tomato', height: '200vh' }} />;", "blank"),
    "two colours": ("export default () => <div style={{ background: 'tomato', height: 300 }} />;", "blank"),
    "a gradient": (
        "export default () => <div style={{ background: 'linear-gradient(red, blue)', height: '100vh' }} />;",
        "blank",
    ),
    "an empty canvas": ("export default () => <canvas width={900} height={700} />;", "blank"),
    "an empty svg": ("export default () => <svg width={900} height={700} />;", "blank"),
    "an invisible field": (
        "export default () => <input style={{ border: 0, outline: 0, background: 'none' }} />;",
        "blank",
    ),
    "a tiny picture": ("export default () => <img src='https://x.test/a.png' alt='' width={1} height={1} />;", "blank"),
    "a number": ("const make = () => 5;\nconst page = <p />;\nexport default make(page);", "error"),
    "an object": ("const pages = { home: { title: <p /> } };\nexport default pages.home;", "error"),
    "an undefined member": ("const pages = { home: <p /> };\nexport default pages.about;", "error"),
    "no component": ("export const Page = () => <p>Hello</p>;", "error"),
    "clears the page": (
        "export default function App() { useEffect(() => { document.body.innerHTML = ''; }, []); return <h1>Hi</h1>; }",
        "blank",
    ),
    "removes the root": ("document.getElementById('root').remove();\nexport default () => <h1>Hello</h1>;", "error"),
    "leaves for an empty page": (
        "export default function App() { useEffect(() => { location.href = 'about:blank'; }, []); return null; }",
        "blank",
    ),
    "lies about the page": (
        "window.getComputedStyle = () => ({ display: 'block', opacity: '1', visibility: 'visible' });\n"
        "Element.prototype.getBoundingClientRect = () => ({ left: 9, top: 9, right: 900, bottom: 700 });\n"
        "Object.defineProperty(Node.prototype, 'textContent', { get: () => 'Lots to read here' });\n"
        "Object.defineProperty(HTMLElement.prototype, 'innerText', { get: () => 'Lots to read here' });\n"
        "document.elementFromPoint = () => document.body;\nArray.prototype.filter = function () { return this; };\n"
        "export default () => <div />;",
        "blank",
    ),
    "does not compile": ("import _ from 'lodash';\nexport default () => <p>{_.now()}</p>;", "error"),
    "is no program": ("export default () => <p>;", "error"),
}
