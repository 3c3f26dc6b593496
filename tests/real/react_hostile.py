"""Components that hang, flood, hoard or reach out. `PORT` stands for the port of a server of the test's own."""

from __future__ import annotations

ALIVE = "return <h1>Still alive</h1>; }"


def in_effect(statements: str) -> str:
    return (
        "import { useEffect } from 'react';\n"
        f"export default function App() {{ useEffect(() => {{ {statements} }}, []); {ALIVE}"
    )


def at_top(statements: str) -> str:
    return f"{statements}\nexport default function App() {{ {ALIVE}"


DRAWN = {"drawn"}
HUNG = {"timeout"}
DOWN = {"timeout", "crashed"}
# Whether these end in an error, a timeout or a picture depends on how fast the machine is.
ANY = {"drawn", "blank", "error", "timeout", "crashed"}

# name: (code, outcomes that are right)
HOSTILE: dict[str, tuple[str, set[str]]] = {
    "loop at top level": (at_top("for (;;);"), HUNG),
    "loop in render": ("export default function App() { for (;;); }", HUNG),
    "loop in an effect": (in_effect("for (;;);"), HUNG),
    "loop in a timer": (in_effect("setTimeout(() => { for (;;); }, 200);"), HUNG),
    "loop of promises": (in_effect("const again = () => Promise.resolve().then(again); again();"), HUNG),
    "loop in an expression": (at_top("/(a+)+$/.test('a'.repeat(50) + 'b');"), HUNG),
    "loop when it is left": (
        in_effect(
            "for (const e of ['pagehide', 'unload', 'beforeunload', 'visibilitychange'])"
            "addEventListener(e, () => { for (;;); });"
        ),
        DRAWN,
    ),
    "loop in a message handler": (in_effect("setTimeout(() => { for (;;); }, 5000);"), DRAWN),
    "state set in render": (
        "import { useState } from 'react';\n"
        "export default function App() { const [n, set] = useState(0); set(n + 1); return <p>{n}</p>; }",
        {"error"},
    ),
    "renders itself": ("export default function App() { return <App />; }", {"error", *DOWN}),
    "200,000 nodes": (
        "export default () => <ul>{Array.from({ length: 200000 }, (_, i) => <li key={i}>{i}</li>)}</ul>;",
        {"drawn", *DOWN},
    ),
    "nodes without end": (in_effect("for (;;) document.body.append(document.createElement('p'), 'text');"), DOWN),
    "nested 20,000 deep": (
        in_effect(
            "let at = document.body; for (let i = 0; i < 20000; i++) at = at.appendChild("
            "document.createElement('div')); at.textContent = 'deep';"
        ),
        ANY,
    ),
    "hoards objects": (at_top("const all = []; for (;;) all.push({ a: [Math.random()] });"), {"error", *DOWN}),
    "hoards arrays": (at_top("const all = []; for (;;) all.push(new Uint8Array(5e7).fill(1));"), {"error", *DOWN}),
    "hoards text": (at_top("let s = 'x'; for (;;) s = (s + s).slice(0, 5e8).split('').join('y');"), {"error", *DOWN}),
    "hoards blobs": (
        in_effect(
            "const all = [], b = new Uint8Array(2e7).fill(7); for (let i = 0; i < 200; i++) all.push(new Blob([b]));"
        ),
        ANY,
    ),
    "hoards canvases": (
        in_effect(
            "for (let i = 0; i < 60; i++) { const c = document.createElement('canvas'); c.width = c.height = 8000;"
            "const p = c.getContext('2d'); p.fillRect(0, 0, 8000, 8000); document.body.append(c); }"
        ),
        ANY,
    ),
    "flood of alerts": (in_effect("for (let i = 0; i < 20000; i++) { alert(i); confirm(i); prompt(i); }"), DRAWN),
    "flood of messages": (in_effect("for (let i = 0; i < 20000; i++) console.log('line', i, { i });"), DRAWN),
    "flood of errors": (
        in_effect(
            "setInterval(() => { throw new Error('again'); }, 0);"
            "for (let i = 0; i < 2000; i++) { reportError(new Error(i)); Promise.reject(i); }"
        ),
        DRAWN,
    ),
    "flood of history": (
        in_effect("for (let i = 0; i < 500; i++) { history.pushState(i, '', '#' + i); location.hash = 'h' + i; }"),
        DRAWN,
    ),
    "flood of pictures": (
        in_effect("for (let i = 0; i < 400; i++) { new Image().src = 'http://127.0.0.1:PORT/' + i; }"),
        {"drawn", *DOWN},
    ),
    "flood of frames": (
        in_effect(
            "for (let i = 0; i < 10; i++) { const f = document.createElement('iframe');"
            "f.srcdoc = '<script>for (;;) console.log(1)</script><p>frame</p>'; document.body.append(f); }"
        ),
        {"drawn", *DOWN},
    ),
    "goes elsewhere": (
        in_effect(
            "location.href = 'http://127.0.0.1:PORT/away';"
            "setTimeout(() => location.replace('http://127.0.0.1:PORT/'), 50);"
        ),
        DRAWN,
    ),
    "goes to a file": (in_effect("location.href = 'file:///etc/passwd';"), DRAWN),
    "reloads for ever": (in_effect("location.reload(); setInterval(() => location.reload(), 10);"), DRAWN),
    "opens windows": (
        in_effect("for (let i = 0; i < 50; i++) { open('about:blank'); open('http://127.0.0.1:PORT/w'); }"),
        DRAWN,
    ),
    "frames of the network": (
        "export default () => <><h1>Still alive</h1><iframe title='a' src='http://127.0.0.1:PORT/frame' />"
        "<object data='http://127.0.0.1:PORT/object'>o</object><embed src='http://127.0.0.1:PORT/embed' /></>;",
        DRAWN,
    ),
    "requests": (
        in_effect(
            "const at = 'http://127.0.0.1:PORT/'; fetch(at).catch(() => {});"
            "try { navigator.sendBeacon(at, 'x'); } catch {}"
            "try { const x = new XMLHttpRequest(); x.open('GET', at, false); x.send(); } catch {}"
            "const f = document.createElement('iframe'); document.body.append(f);"
            "try { f.contentWindow.fetch(at).catch(() => {}); } catch {}"
        ),
        DRAWN,
    ),
    "sockets": (
        in_effect(
            "const at = '127.0.0.1:PORT/'; try { new WebSocket('ws://' + at); } catch {}"
            "try { new EventSource('http://' + at); } catch {}"
            "try { const p = new RTCPeerConnection({ iceServers: [{ urls: 'stun:127.0.0.1:PORT' }] });"
            "p.createDataChannel('a'); p.createOffer().then((o) => p.setLocalDescription(o)); } catch {}"
        ),
        DRAWN,
    ),
    "elements that load": (
        in_effect(
            "const at = 'http://127.0.0.1:PORT/';"
            "for (const tag of ['script', 'video', 'audio', 'img', 'track', 'embed'])"
            "document.body.append(Object.assign(document.createElement(tag), { src: at + tag }));"
            "for (const rel of ['stylesheet', 'preconnect', 'dns-prefetch', 'prefetch', 'preload', 'manifest', 'icon'])"
            "document.head.append(Object.assign(document.createElement('link'), { rel, as: 'script', href: at }));"
            "const form = Object.assign(document.createElement('form'), { action: at + 'form', method: 'post' });"
            "document.body.append(form); form.submit();"
        ),
        DRAWN,
    ),
    "workers": (
        in_effect(
            "const code = URL.createObjectURL(new Blob(['for (;;);'])); for (let i = 0; i < 20; i++) {"
            "try { new Worker(code); } catch {} try { new SharedWorker(code); } catch {} }"
            "try { navigator.serviceWorker.register('http://127.0.0.1:PORT/sw.js').catch(() => {}); } catch {}"
        ),
        DRAWN,
    ),
    "breaks the built-ins": (
        at_top(
            "for (const on of [Array.prototype, Object, JSON, Promise.prototype, Node.prototype, Document.prototype])"
            "for (const name of Object.getOwnPropertyNames(on)) {"
            "try { on[name] = () => { throw new Error('broken'); }; } catch {} }"
        ),
        {"error", "blank", *DOWN},
    ),
    "writes over the page": (
        in_effect("document.open(); document.write('<h1>Still alive</h1>'); document.close();"),
        DRAWN,
    ),
    "heavy style": (
        "const style = { filter: 'blur(60px)', boxShadow: '0 0 900px 400px red', width: 900, height: 900,"
        "mixBlendMode: 'difference' };\n"
        "export default () => Array.from({ length: 300 }, (_, i) => <div key={i} style={style} />);",
        ANY,
    ),
}
