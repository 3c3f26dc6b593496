"""The component families of the tiny scale, by name."""

from __future__ import annotations

from botgrpo_cli.tiny.families import controls, lists, panels
from botgrpo_cli.tiny.families.shape import Family, Spec, Style

FAMILIES: dict[str, Family] = {**controls.FAMILIES, **lists.FAMILIES, **panels.FAMILIES}

__all__ = ["FAMILIES", "Family", "Spec", "Style"]
