"""From settings to a server that was asked what it can do, or to a sentence that says why it cannot be used."""

from __future__ import annotations

from botgrpo_cli.errors import InputError, nearest
from botgrpo_cli.judges.probe import Probe, run_probe
from botgrpo_cli.judges.retry import Patience
from botgrpo_cli.judges.settings import Settings
from botgrpo_cli.judges.transport import Answer, Fault, Prompt, Transport
from botgrpo_cli.recipe.schema import JudgeConfig


def open_transport(settings: Settings, config: JudgeConfig) -> Transport:
    """The connection to a server; nothing is sent yet. The SDKs are imported here, when they are needed."""
    if settings.kind == "bedrock":
        from botgrpo_cli.judges.bedrock import BedrockTransport

        return BedrockTransport(settings, timeout=config.timeout, concurrency=config.concurrency)
    from botgrpo_cli.judges.openai_http import OpenAITransport

    return OpenAITransport(settings, timeout=config.timeout)


def probe_transport(transport: Transport, config: JudgeConfig, settings: Settings, patience: Patience) -> Probe:
    """Raises InputError with the server's words and what may mend it."""

    def send(prompt: Prompt, tries: int | None) -> Answer:
        return patience.call(lambda: transport.send(prompt), tries)

    try:
        return run_probe(transport, send, temperature=config.temperature, max_tokens=config.max_tokens)
    except Fault as fault:
        raise InputError(_useless(transport, settings, fault)) from None


def _useless(transport: Transport, settings: Settings, fault: Fault) -> str:
    if fault.again:
        return (
            f"The judge at {transport.host} did not answer: {fault}. Is the server running, and is the address right?"
        )
    text = f"The judge {transport.model} at {transport.host} refused the first call with {fault}."
    if fault.status in (401, 403) and settings.kind == "openai":
        key = f"the key came from {settings.key_from}" if settings.key_from else "no key was set"
        return f"{text} Of the environment, {key}."
    if fault.status in (400, 404) and (there := transport.models()):
        if transport.model not in there:
            return f"{text} The models there: {', '.join(there[:10])}.{nearest(transport.model, there)}"
    elif fault.status == 404 and settings.kind == "openai":
        return f"{text} The address of most servers ends in /v1."
    return text
