"""Families around one value: counter, switch, rating, picker, converter, steps."""

from __future__ import annotations

from random import Random

from botgrpo_cli.tiny.families.shape import Family, Spec, Style, called, component, mapped, setter, some, texts
from botgrpo_cli.tiny.families.words import PAIRS, TITLES, UNITS, items, listed


def draw_counter(rng: Random) -> Spec:
    title, start, step = rng.choice(TITLES), rng.randint(0, 9), rng.randint(1, 9)
    features = some(rng, "minus", "reset", "limit")
    extras = [
        label
        for feature, label in (
            ("minus", "a minus button"),
            ("reset", "a reset button"),
            ("limit", "a warning above 20"),
        )
        if feature in features
    ]
    brief = f"{called(rng, 'Counter', title)}: start at {start}, step {step}"
    brief += f", with {listed(tuple(extras))}." if extras else "."
    words = [title] + [word for key, word in (("minus", "Minus"), ("reset", "Reset")) if key in features]
    return Spec(brief, ("element:button", "state", "event:click", *texts(*words)), title, (), (start, step), features)


def write_counter(spec: Spec, style: Style) -> str:
    name = style.pick("count", "value", "total")
    start, step = spec.numbers
    show = [f"<p>{{{name}}}</p>"]
    buttons = [f"<button onClick={{() => {style.updated(name, f'+ {step}')}}}>Plus</button>"]
    if "minus" in spec.features:
        minus = f"<button onClick={{() => {style.updated(name, f'- {step}')}}}>Minus</button>"
        buttons = style.order(buttons, [minus])
    if "reset" in spec.features:
        buttons.append(f"<button onClick={{() => {setter(name)}({start})}}>Reset</button>")
    if style.pick("row", "plain") == "row":
        buttons = ['<div className="row">', *(f"  {line}" for line in buttons), "</div>"]
    body = style.order(show, buttons)
    if "limit" in spec.features:
        body.append(f"{{{name} > 20 && <p>Too many</p>}}")
    return component(style, style.pick("App", "Counter"), spec.title, [style.state(name, str(start))], body)


def draw_switch(rng: Random) -> Spec:
    title, pair = rng.choice(TITLES), rng.choice(PAIRS)
    pair = pair if rng.random() < 0.5 else pair[::-1]
    features = some(rng, "note", "count")
    extras = [label for key, label in (("note", "a note"), ("count", "a click count")) if key in features]
    brief = f"{called(rng, 'Switch', title)}: shows {pair[0]} or {pair[1]}"
    brief += f", with {listed(tuple(extras))}." if extras else "."
    asks = ("element:button", "state", "event:click", *texts(title, *pair))
    return Spec(brief, asks, title, pair, (), features)


def write_switch(spec: Spec, style: Style) -> str:
    name = style.pick("active", "open", "ready")
    yes, no = (style.text(word) for word in spec.words)
    hooks = [style.state(name, style.pick("true", "false"))]
    body = [f"<p>{{{name} ? {yes} : {no}}}</p>"]
    flip = f"{setter(name)}(!{name})"
    if "count" in spec.features:
        hooks.append(style.state("clicks", "0"))
        hooks += [
            "const flip = () => {",
            *(f"  {line}" for line in style.order([f"{flip};"], ["setClicks(clicks + 1);"])),
            "};",
        ]
        body = style.order(body, ["<p>Clicks: {clicks}</p>"])
        button = "<button onClick={flip}>Switch</button>"
    else:
        button = f"<button onClick={{() => {flip}}}>Switch</button>"
    body = style.order(body, [button])
    if "note" in spec.features:
        body += [f"{{{name} && (", f'  <p className="note">It is {spec.words[0]} now</p>', ")}"]
    return component(style, style.pick("App", "Switch"), spec.title, hooks, body)


def draw_rating(rng: Random) -> Spec:
    title, top = rng.choice(TITLES), rng.randint(3, 6)
    features = some(rng, "clear", "thanks")
    extras = [label for key, label in (("clear", "a clear button"), ("thanks", "a thank you")) if key in features]
    brief = f"{called(rng, 'Rating', title)}: buttons from 1 to {top}"
    brief += f", with {listed(tuple(extras))}." if extras else "."
    words = [title, "Rating"] + (["Clear"] if "clear" in features else [])
    asks = ("element:button", "state", "event:click", "map", *texts(*words))
    return Spec(brief, asks, title, (), (top,), features)


def write_rating(spec: Spec, style: Style) -> str:
    name, marks = style.pick("rating", "score", "stars"), style.pick("marks", "options")
    numbers = ", ".join(str(number) for number in range(1, spec.numbers[0] + 1))
    click = f" onClick={{() => {setter(name)}(mark)}}"
    body = style.order(mapped(style, marks, "mark", "button", click, "{mark}"), [f"<p>Rating: {{{name}}}</p>"])
    if "clear" in spec.features:
        body.append(f"<button onClick={{() => {setter(name)}(0)}}>Clear</button>")
    if "thanks" in spec.features:
        body.append(f"{{{name} > 0 && <p>Thank you</p>}}")
    data = [f"const {marks} = [{numbers}];"]
    return component(style, style.pick("App", "Rating"), spec.title, [style.state(name, "0")], body, data)


def draw_picker(rng: Random) -> Spec:
    title, options = rng.choice(TITLES), items(rng, rng.randint(2, 4))
    features = some(rng, "reset", "note")
    extras = [label for key, label in (("reset", "a reset button"), ("note", "a note")) if key in features]
    brief = f"{called(rng, 'Select', title)}: choose {', '.join(options[:-1])} or {options[-1]}"
    brief += f", with {listed(tuple(extras))}." if extras else "."
    words = [title, *options] + (["Reset"] if "reset" in features else [])
    return Spec(brief, ("select", "state", "event:change", "map", *texts(*words)), title, options, (), features)


def write_picker(spec: Spec, style: Style) -> str:
    name, options = style.pick("choice", "picked", "value"), style.pick("options", "choices")
    first = style.text(spec.words[0])
    select = [
        f'<select aria-label="{spec.title}" {style.typed(name)}>',
        *(f"  {line}" for line in mapped(style, options, "option", "option", "", "{option}")),
        "</select>",
    ]
    body = style.order(select, [f"<p>Chosen: {{{name}}}</p>"])
    if "reset" in spec.features:
        body.append(f"<button onClick={{() => {setter(name)}({first})}}>Reset</button>")
    if "note" in spec.features:
        body.append(f"{{{name} === {first} && <p>This is the first</p>}}")
    data = [f"const {options} = {style.array(spec.words)};"]
    return component(style, style.pick("App", "Picker"), spec.title, [style.state(name, first)], body, data)


def draw_converter(rng: Random) -> Spec:
    title, pair, factor = rng.choice(TITLES), rng.choice(UNITS), rng.randint(2, 60)
    features = some(rng, "clear", "large")
    extras = [label for key, label in (("clear", "a clear button"), ("large", "a note above 100")) if key in features]
    brief = f"{called(rng, 'Converter', title)}: {pair[0]} times {factor} is {pair[1]}"
    brief += f", with {listed(tuple(extras))}." if extras else "."
    words = [title, *pair] + (["Clear"] if "clear" in features else [])
    asks = ("element:input", "state", "event:change", *texts(*words))
    return Spec(brief, asks, title, pair, (factor,), features)


def write_converter(spec: Spec, style: Style) -> str:
    name, result = style.pick("amount", "value", "input"), style.pick("result", "output")
    source, target = spec.words
    hooks = [style.state(name, style.pick("1", "0")), f"const {result} = Number({name}) * {spec.numbers[0]};"]
    field = f'<input type="number" {style.typed(name)} />'
    label = style.pick("label", "aria")
    entry = (
        ["<label>", f"  {source}", f"  {field}", "</label>"]
        if label == "label"
        else [f"<p>{source}</p>", field.replace(" value", f' aria-label="{source}" value', 1)]
    )
    body = [*entry, f"<p>{{{result}}} {target}</p>"]
    if "clear" in spec.features:
        body.append(f"<button onClick={{() => {setter(name)}(0)}}>Clear</button>")
    if "large" in spec.features:
        body.append(f"{{{result} > 100 && <p>That is a lot</p>}}")
    return component(style, style.pick("App", "Converter"), spec.title, hooks, body)


def draw_steps(rng: Random) -> Spec:
    title, steps = rng.choice(TITLES), items(rng, rng.randint(2, 4))
    features = some(rng, "back", "number")
    extras = [label for key, label in (("back", "a back button"), ("number", "the step number")) if key in features]
    brief = f"{called(rng, 'Steps', title)}: {', '.join(steps[:-1])} then {steps[-1]}"
    brief += f", with {listed(tuple(extras))}." if extras else "."
    words = [title, *steps] + (["Back"] if "back" in features else [])
    return Spec(brief, ("element:button", "state", "event:click", *texts(*words)), title, steps, (), features)


def write_steps(spec: Spec, style: Style) -> str:
    name, steps = style.pick("index", "step", "page"), style.pick("steps", "pages")
    last = len(spec.words) - 1
    show = [f"<p>{{{steps}[{name}]}}</p>"]
    if "number" in spec.features:
        show = style.order(show, [f"<p>Step {{{name} + 1}} of {{{steps}.length}}</p>"])
    buttons = []
    if "back" in spec.features:
        buttons += [
            f"<button disabled={{{name} === 0}} onClick={{() => {setter(name)}({name} - 1)}}>",
            "  Back",
            "</button>",
        ]
    buttons += [
        f"<button disabled={{{name} === {last}}} onClick={{() => {setter(name)}({name} + 1)}}>",
        "  Next",
        "</button>",
    ]
    data = [f"const {steps} = {style.array(spec.words)};"]
    hooks = [style.state(name, "0")]
    return component(style, style.pick("App", "Steps"), spec.title, hooks, style.order(show, buttons), data)


FAMILIES = {
    "counter": Family(draw_counter, write_counter),
    "switch": Family(draw_switch, write_switch),
    "rating": Family(draw_rating, write_rating),
    "picker": Family(draw_picker, write_picker),
    "converter": Family(draw_converter, write_converter),
    "steps": Family(draw_steps, write_steps),
}
