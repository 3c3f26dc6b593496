"""The judge's server of tests/judges, for steps that are judged by a model."""

from tests.judges.conftest import no_environment, server  # noqa: F401
