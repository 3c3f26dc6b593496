"""Names of metrics in words, and whether a metric is a share that people read in percent."""

from __future__ import annotations

_SHARES = ("solved", "win_rate")


def is_share(metric: str) -> bool:
    """Whether the metric's name says that it is a share of something, shown in percent.

    >>> is_share("compile_rate"), is_share("pass@4"), is_share("length"), is_share("learning_rate")
    (True, True, False, False)
    """
    ends = ("_rate", "_share", "accuracy")
    return metric != "learning_rate" and (metric in _SHARES or metric.endswith(ends) or metric.startswith("pass@"))


def in_words(metric: str) -> str:
    """
    >>> in_words("compile_rate"), in_words("pass@4")
    ('compile rate', 'Pass@4')
    """
    return f"P{metric[1:]}" if metric.startswith("pass@") else metric.replace("_", " ")


def shown(metric: str, value: float) -> str:
    """A value as people read it.

    >>> shown("compile_rate", 0.834), shown("compile_rate", 0.031), shown("length", 118.26), shown("reward", 2.9)
    ('83 %', '3.1 %', '118', '2.90')
    """
    if not is_share(metric):
        return f"{value:#.3g}".removesuffix(".")  # with its zeros: 2.90 beside 3.48
    return f"{100 * value:.{0 if value == 0 or value >= 0.0995 else 1}f} %"
