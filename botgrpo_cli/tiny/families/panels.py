"""Families around panels of text and fields: tabs, accordion, card, quiz, form."""

from __future__ import annotations

from random import Random

from botgrpo_cli.tiny.families.shape import Family, Spec, Style, called, component, mapped, setter, some, texts
from botgrpo_cli.tiny.families.words import FIELDS, PEOPLE, ROLES, TITLES, items, listed


def draw_tabs(rng: Random) -> Spec:
    title, tabs = rng.choice(TITLES), items(rng, rng.choice((2, 2, 3, 4)))
    features = some(rng, "first", "close")
    extras = [label for key, label in (("first", "a first note"), ("close", "a close button")) if key in features]
    brief = f"{called(rng, 'Tabs', title)}: {listed(tabs)}"
    brief += f", with {listed(tuple(extras))}." if extras else "."
    words = [title, *tabs] + (["Close"] if "close" in features else [])
    return Spec(brief, ("element:button", "state", "event:click", "map", *texts(*words)), title, tabs, (), features)


def write_tabs(spec: Spec, style: Style) -> str:
    current, tabs = style.pick("tab", "active", "current"), style.pick("tabs", "names")
    first = style.text(spec.words[0])
    click = f" onClick={{() => {setter(current)}(name)}}"
    row = [
        '<div className="row">',
        *(f"  {x}" for x in mapped(style, tabs, "name", "button", click, "{name}")),
        "</div>",
    ]
    body = [*row, f"<p>You see {{{current}}}</p>"]
    if "first" in spec.features:
        body.append(f"{{{current} === {first} && <p>This is the first</p>}}")
    if "close" in spec.features:
        body.append(f"<button onClick={{() => {setter(current)}({style.text('')})}}>Close</button>")
    data = [f"const {tabs} = {style.array(spec.words)};"]
    return component(style, style.pick("App", "Tabs"), spec.title, [style.state(current, first)], body, data)


def draw_accordion(rng: Random) -> Spec:
    title, panels = rng.choice(TITLES), items(rng, rng.choice((2, 2, 3)))
    features = some(rng, "close")
    brief = f"{called(rng, 'Accordion', title)}: panels {listed(panels)}"
    brief += ", with a close button." if features else "."
    words = [title, *panels] + (["Close"] if features else [])
    return Spec(brief, ("element:button", "state", "event:click", *texts(*words)), title, panels, (), features)


def write_accordion(spec: Spec, style: Style) -> str:
    current = style.pick("open", "panel", "active")
    body = []
    for number, word in enumerate(spec.words, start=1):
        body.append(f"<button onClick={{() => {setter(current)}({number})}}>{word}</button>")
        body.append(f"{{{current} === {number} && <p>About {word}</p>}}")
    if "close" in spec.features:
        body.append(f"<button onClick={{() => {setter(current)}(0)}}>Close</button>")
    hooks = [style.state(current, style.pick("0", "1"))]
    return component(style, style.pick("App", "Accordion"), spec.title, hooks, body)


def draw_card(rng: Random) -> Spec:
    title, person, role = rng.choice(TITLES), rng.choice(PEOPLE), rng.choice(ROLES)
    likes = rng.choice((0, 5, 10, 20))
    features = some(rng, "follow", "skills")
    skills = items(rng, 2) if "skills" in features else ()
    extras = [f"skills {listed(skills)}"] if skills else []
    extras += ["a follow button"] if "follow" in features else []
    brief = f"{called(rng, 'Profile card', title)}: {person} the {role}, {likes} likes"
    brief += f", with {', with '.join(extras)}." if extras else "."
    words = [title, person, role, *skills] + (["Follow"] if "follow" in features else [])
    asks = ("element:button", "state", "event:click", *texts(*words))
    if skills:
        asks = ("element:list", *asks)
    return Spec(brief, asks, title, (person, role, *skills), (likes,), features)


def write_card(spec: Spec, style: Style) -> str:
    person, role, *skills = spec.words
    hooks = [style.state("likes", str(spec.numbers[0]))]
    body = style.order([f"<h3>{person}</h3>"], [f"<p>{role}</p>"])
    if skills:
        body += ["<ul>", *(f"  <li>{skill}</li>" for skill in skills), "</ul>"]
    body += ["<p>{likes} likes</p>", f"<button onClick={{() => {style.updated('likes', '+ 1')}}}>Like</button>"]
    if "follow" in spec.features:
        state = style.pick("follows", "followed")
        hooks.append(style.state(state, "false"))
        texts_ = f"{{{state} ? {style.text('Following')} : {style.text('Follow')}}}"
        body += [f"<button onClick={{() => {setter(state)}(!{state})}}>", f"  {texts_}", "</button>"]
    return component(style, style.pick("App", "Card", "Profile"), spec.title, hooks, body)


def draw_quiz(rng: Random) -> Spec:
    title, options = rng.choice(TITLES), items(rng, rng.choice((2, 2, 3, 4)))
    answer = rng.choice(options)
    features = some(rng, "again")
    brief = f"{called(rng, 'Quiz', title)}: {', '.join(options[:-1])} or {options[-1]}, right is {answer}"
    brief += ", with an again button." if features else "."
    words = [title, *options, "Right"] + (["Again"] if features else [])
    asks = ("element:button", "state", "event:click", "map", *texts(*words))
    return Spec(brief, asks, title, (answer, *options), (), features)


def write_quiz(spec: Spec, style: Style) -> str:
    answer, *options = spec.words
    choice, names = style.pick("choice", "answer", "guess"), style.pick("options", "answers")
    click = f" onClick={{() => {setter(choice)}(option)}}"
    right = style.text(answer)
    body = mapped(style, names, "option", "button", click, "{option}")
    if style.pick("two", "one") == "two":
        body.append(f"{{{choice} === {right} && <p>Right</p>}}")
        body.append(f"{{{choice} !== {right} && <p>Try it</p>}}")
    else:
        body.append(f"<p>{{{choice} === {right} ? {style.text('Right')} : {style.text('Try it')}}}</p>")
    if "again" in spec.features:
        body.append(f"<button onClick={{() => {setter(choice)}({style.text('')})}}>Again</button>")
    data = [f"const {names} = {style.array(tuple(options))};"]
    hooks = [style.state(choice, style.text(""))]
    return component(style, style.pick("App", "Quiz"), spec.title, hooks, body, data)


def draw_form(rng: Random) -> Spec:
    title, fields = rng.choice(TITLES), tuple(rng.sample(FIELDS, rng.choice((1, 1, 2))))
    action = rng.choice(("Send", "Save", "Join"))
    features = some(rng, "thanks")
    brief = f"{called(rng, 'Form', title)}: fields {listed(fields)}, a {action} button"
    brief += ", with a thank you." if features else "."
    asks = ("element:input", "element:button", "state", "event:click", "event:change", *texts(title, *fields, action))
    return Spec(brief, asks, title, (action, *fields), (), features)


def write_form(spec: Spec, style: Style) -> str:
    action, *fields = spec.words
    done = style.pick("sent", "done")
    hooks = [style.state(field, style.text("")) for field in fields] + [style.state(done, "false")]
    layout = style.pick("label", "placeholder")
    body = []
    for field in fields:
        if layout == "label":
            body += ["<label>", f"  {field}", f"  <input {style.typed(field)} />", "</label>"]
        else:
            body.append(f'<input placeholder="{field}" {style.typed(field)} />')
    body.append(f"<button onClick={{() => {setter(done)}(true)}}>{action}</button>")
    thanks = f"Thank you, {{{fields[0]}}}" if "thanks" in spec.features else "Done"
    body.append(f"{{{done} && <p>{thanks}</p>}}")
    return component(style, style.pick("App", "Form"), spec.title, hooks, body)


FAMILIES = {
    "tabs": Family(draw_tabs, write_tabs),
    "accordion": Family(draw_accordion, write_accordion),
    "card": Family(draw_card, write_card),
    "quiz": Family(draw_quiz, write_quiz),
    "form": Family(draw_form, write_form),
}
