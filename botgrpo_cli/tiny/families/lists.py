"""Families around an array: to-do list, table, search, cart, poll, packing list."""

from __future__ import annotations

from random import Random

from botgrpo_cli.tiny.families.shape import Family, Spec, Style, called, component, mapped, setter, some, texts
from botgrpo_cli.tiny.families.words import TITLES, items, listed


def draw_todo(rng: Random) -> Spec:
    title, entries = rng.choice(TITLES), items(rng, rng.choice((1, 2, 2, 3)))
    features = some(rng, "count", "clear", "empty")
    extras = [
        label
        for key, label in (("count", "a count"), ("clear", "a clear button"), ("empty", "an empty note"))
        if key in features
    ]
    brief = f"{called(rng, 'Todo list', title)}: has {listed(entries)}, can add more"
    brief += f", with {listed(tuple(extras))}." if extras else "."
    words = [title, *entries, "Add"] + (["Clear"] if "clear" in features else [])
    asks = ("element:input", "element:button", "element:list", "state", "event:click", "event:change", "map")
    return Spec(brief, (*asks, *texts(*words)), title, entries, (), features)


def write_todo(spec: Spec, style: Style) -> str:
    entries, text = style.pick("items", "tasks", "todos"), style.pick("text", "draft")
    hooks = style.order([style.state(entries, style.array(spec.words))], [style.state(text, style.text(""))])
    add = f"{setter(entries)}([...{entries}, {text}])"
    if style.pick("clears", "keeps") == "clears":
        hooks += ["const add = () => {", f"  {add};", f"  {setter(text)}({style.text('')});", "};"]
    else:
        hooks.append(f"const add = () => {add};")
    entry = [f'<input aria-label="{style.pick("New", "Item")}" {style.typed(text)} />']
    entry.append("<button onClick={add}>Add</button>")
    body = style.order(
        entry, ["<ul>", *(f"  {x}" for x in mapped(style, entries, "item", "li", "", "{item}")), "</ul>"]
    )
    if "count" in spec.features:
        body.append(f"<p>Count: {{{entries}.length}}</p>")
    if "clear" in spec.features:
        body.append(f"<button onClick={{() => {setter(entries)}([])}}>Clear</button>")
    if "empty" in spec.features:
        body.append(f"{{{entries}.length === 0 && <p>Nothing here</p>}}")
    return component(style, style.pick("App", "TodoList"), spec.title, hooks, body)


def draw_table(rng: Random) -> Spec:
    title, rows = rng.choice(TITLES), items(rng, rng.choice((2, 2, 3)))
    prices = tuple(rng.randint(1, 20) for _ in rows)
    column = rng.choice(("Price", "Size", "Stock"))
    features = some(rng, "hide", "count")
    extras = [label for key, label in (("hide", "a hide button"), ("count", "a row count")) if key in features]
    pairs = tuple(f"{row} {price}" for row, price in zip(rows, prices, strict=True))
    brief = f"{called(rng, 'Table', title)}: column {column}, rows {listed(pairs)}"
    brief += f", with {listed(tuple(extras))}." if extras else "."
    asks = ("element:table", "map", *texts(title, column, *rows))
    if "hide" in features:
        asks = ("element:table", "element:button", "state", "event:click", *asks[1:])
    return Spec(brief, asks, title, (column, *rows), prices, features)


def write_table(spec: Spec, style: Style) -> str:
    rows, row = style.pick("rows", "data"), style.pick("row", "item")
    column, *names = spec.words
    key = column.lower()
    data = [f"const {rows} = ["]
    data += [f"  {{ name: {style.text(n)}, {key}: {v} }}," for n, v in zip(names, spec.numbers, strict=True)]
    data.append("];")
    table = [
        "<table>",
        "  <thead>",
        f"    <tr><th>Name</th><th>{column}</th></tr>",
        "  </thead>",
        "  <tbody>",
        f"    {{{rows}.map(({row}) => (",
        f"      <tr key={{{row}.name}}>",
        f"        <td>{{{row}.name}}</td>",
        f"        <td>{{{row}.{key}}}</td>",
        "      </tr>",
        "    ))}",
        "  </tbody>",
        "</table>",
    ]
    hooks = []
    if "hide" in spec.features:
        hooks = [style.state("shown", "true")]
        button = "<button onClick={() => setShown(!shown)}>Hide</button>"
        table = [button, "{shown && (", *(f"  {line}" for line in table), ")}"]
    body = table + ([f"<p>Rows: {{{rows}.length}}</p>"] if "count" in spec.features else [])
    return component(style, style.pick("App", "Table"), spec.title, hooks, body, data)


def draw_search(rng: Random) -> Spec:
    title, entries = rng.choice(TITLES), items(rng, rng.choice((2, 2, 3, 4)))
    features = some(rng, "empty", "count")
    extras = [label for key, label in (("empty", "an empty note"), ("count", "a count")) if key in features]
    brief = f"{called(rng, 'Search', title)}: filter {listed(entries)}"
    brief += f", with {listed(tuple(extras))}." if extras else "."
    asks = ("element:input", "element:list", "state", "event:change", "map", *texts(title, *entries))
    return Spec(brief, asks, title, entries, (), features)


def write_search(spec: Spec, style: Style) -> str:
    query, found = style.pick("query", "text"), style.pick("found", "shown")
    hooks = [
        style.state(query, style.text("")),
        f"const {found} = items.filter((item) => item.includes({query}));",
    ]
    body = [
        f'<input aria-label="Search" {style.typed(query)} />',
        "<ul>",
        *(f"  {line}" for line in mapped(style, found, "item", "li", "", "{item}")),
        "</ul>",
    ]
    if "empty" in spec.features:
        body.append(f"{{{found}.length === 0 && <p>Nothing found</p>}}")
    if "count" in spec.features:
        body.append(f"<p>Count: {{{found}.length}}</p>")
    data = [f"const items = {style.array(spec.words)};"]
    return component(style, style.pick("App", "Search"), spec.title, hooks, body, data)


def draw_cart(rng: Random) -> Spec:
    title, goods = rng.choice(TITLES), items(rng, rng.choice((1, 2, 2, 3)))
    prices = tuple(rng.randint(1, 20) for _ in goods)
    features = some(rng, "clear", "large")
    extras = [label for key, label in (("clear", "a clear button"), ("large", "a note above 50")) if key in features]
    pairs = tuple(f"{good} {price}" for good, price in zip(goods, prices, strict=True))
    brief = f"{called(rng, 'Cart', title)}: sells {listed(pairs)}"
    brief += f", with {listed(tuple(extras))}." if extras else "."
    words = [title, *goods] + (["Clear"] if "clear" in features else [])
    asks = ("element:button", "element:list", "state", "event:click", "map", *texts(*words))
    return Spec(brief, asks, title, goods, prices, features)


def write_cart(spec: Spec, style: Style) -> str:
    total, goods = style.pick("total", "sum"), style.pick("goods", "products")
    data = [f"const {goods} = ["]
    data += [f"  {{ name: {style.text(n)}, price: {v} }}," for n, v in zip(spec.words, spec.numbers, strict=True)]
    data.append("];")
    body = [
        "<ul>",
        f"  {{{goods}.map((item) => (",
        "    <li key={item.name}>",
        "      {item.name}: {item.price}",
        f"      <button onClick={{() => {setter(total)}({total} + item.price)}}>Buy</button>",
        "    </li>",
        "  ))}",
        "</ul>",
    ]
    body = style.order(body, [f"<p>Total: {{{total}}}</p>"])
    if "clear" in spec.features:
        body.append(f"<button onClick={{() => {setter(total)}(0)}}>Clear</button>")
    if "large" in spec.features:
        body.append(f"{{{total} > 50 && <p>That is a lot</p>}}")
    return component(style, style.pick("App", "Cart"), spec.title, [style.state(total, "0")], body, data)


def draw_poll(rng: Random) -> Spec:
    title, options = rng.choice(TITLES), items(rng, rng.choice((2, 2, 3)))
    features = some(rng, "reset", "sum") if len(options) == 2 else frozenset()
    extras = [label for key, label in (("reset", "a reset button"), ("sum", "a vote sum")) if key in features]
    brief = f"{called(rng, 'Poll', title)}: vote for {', '.join(options[:-1])} or {options[-1]}"
    brief += f", with {listed(tuple(extras))}." if extras else "."
    words = [title, *options] + (["Reset"] if "reset" in features else [])
    return Spec(brief, ("element:button", "state", "event:click", *texts(*words)), title, options, (), features)


def write_poll(spec: Spec, style: Style) -> str:
    names = [word.lower() for word in spec.words]
    hooks = [style.state(name, "0") for name in names]
    body = []
    for word, name in zip(spec.words, names, strict=True):
        body.append(f"<button onClick={{() => {style.updated(name, '+ 1')}}}>{word}</button>")
        body.append(f"<p>{{{name}}} votes</p>")
    if "reset" in spec.features:
        hooks += ["const reset = () => {", *(f"  {setter(name)}(0);" for name in names), "};"]
        body.append("<button onClick={reset}>Reset</button>")
    if "sum" in spec.features:
        body.append(f"<p>Sum: {{{' + '.join(names)}}}</p>")
    return component(style, style.pick("App", "Poll"), spec.title, hooks, body)


FAMILIES = {
    "todo": Family(draw_todo, write_todo),
    "table": Family(draw_table, write_table),
    "search": Family(draw_search, write_search),
    "cart": Family(draw_cart, write_cart),
    "poll": Family(draw_poll, write_poll),
}
