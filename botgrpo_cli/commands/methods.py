"""botgrpo methods: what each method of the registry is made of."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from botgrpo_cli.console import console


def methods() -> None:
    """List the methods: where each comes from, its formula, and the parts it uses.

    A recipe overrides any part: `--method bot-grpo --set method.ratio=sequence`.
    """
    from botgrpo_cli.methods.registry import METHODS, Method

    def parts(method: Method) -> str:
        said = [
            f"advantage {method.advantage}",
            f"ratio {method.ratio}",
            f"clip {method.clip_low:g} / {method.clip_high:g}",
            f"aggregation {method.aggregation}",
            *(f"{key} {value}" for key, value in method.options.items()),
        ]
        if method.minibatches > 1:
            said.append(f"minibatches {method.minibatches}")
        if method.refills:
            said.append(f"refills {method.refills}")
        if method.overlong:
            said.append(f"overlong {method.overlong:g}")
        return ", ".join(said)

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, method in METHODS.items():
        for label, text in ((name, method.paper), ("", method.formula), ("", parts(method))):
            table.add_row(label, Text(text))
        table.add_row()
    console().print(table)
    console().print(
        Text(
            "Per rollout k and token t: r_kt = R_k + w_local * local_kt, the same for all methods. A recipe overrides "
            "any part, for example --set method.ratio=sequence; recipes/README.md has the keys."
        )
    )
