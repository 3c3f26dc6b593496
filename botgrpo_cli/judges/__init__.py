"""Judges: language and vision models that score a completion, and offline stand-ins with the same verdicts."""
