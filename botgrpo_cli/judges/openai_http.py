"""Any server with OpenAI's chat completions (vLLM, llama.cpp, Ollama, LM Studio, a proxy), through the `openai` SDK."""

from __future__ import annotations

import base64
from typing import Any

from botgrpo_cli.judges.base import Image
from botgrpo_cli.judges.retry import parse_retry_after
from botgrpo_cli.judges.settings import Secrets, Settings, host_of
from botgrpo_cli.judges.transport import Answer, Fault, Prompt, Rung, server_words

CONNECT = 10.0  # seconds; a server that is there takes the connection at once
FILTERED = ("content_filter", "content_policy_violation")  # codes of a 400 that is a refusal, no wrong request


class OpenAITransport:
    """One server and one model. The SDK's own retries are off, its time-outs are ours."""

    kind = "openai"
    rungs: tuple[Rung, ...] = ("json_schema", "json_object", "prompt")

    def __init__(self, settings: Settings, *, timeout: float) -> None:
        """`timeout` is the longest silence of the server, in seconds."""
        import openai

        assert settings.url is not None
        self.model = settings.model
        self.address, self.host = settings.url, host_of(settings.url)
        self._secrets = Secrets([settings.key])
        self._limit = "max_tokens"
        self._client = openai.OpenAI(
            base_url=settings.url,
            api_key=settings.key or "none",  # the SDK wants one; servers without keys take any
            max_retries=0,
            # No limit on waiting for a connection of the pool: our own cap says how many calls are in flight.
            timeout=openai.Timeout(timeout, connect=min(CONNECT, timeout), pool=None),
        )

    def send(self, prompt: Prompt) -> Answer:
        """See `Transport`. Faults are raised without their cause, which holds the request and so the key."""
        found = self._try(prompt)
        if isinstance(found, Fault) and found.status == 400 and self._other_limit(found.words):
            found = self._try(prompt)
        if isinstance(found, Fault):
            raise found
        return found

    def _try(self, prompt: Prompt) -> Answer | Fault:
        import openai

        try:
            # The SDK's own way for any endpoint, and the JSON as it came: its typed method takes twice the processor
            # time, which counts where one process makes many calls at once, and guesses at odd replies.
            return self._answer(self._client.post("/chat/completions", cast_to=object, body=self._request(prompt)))
        except openai.APIStatusError as error:
            words = self.clean(server_words(error.body, error.message))
            if error.code in FILTERED:
                return Answer(words, "refused", 0, 0, None)  # turned away before the model
            return Fault(words, error.status_code, retry_after=parse_retry_after(error.response.headers))
        except openai.APITimeoutError:
            return Fault("it did not answer in time")
        except openai.APIConnectionError as error:
            return Fault(self.clean(f"the connection failed ({error.__cause__ or error})"))
        except (openai.OpenAIError, ValueError) as error:  # ValueError: a body that is no JSON
            return Fault(self.clean(f"its answer cannot be read ({error})"))

    def _other_limit(self, words: str) -> bool:
        """OpenAI's reasoning models have another name for the token limit, and say so."""
        if self._limit == "max_tokens" and "max_completion_tokens" in words:
            self._limit = "max_completion_tokens"
            return True
        return False

    def _request(self, prompt: Prompt) -> dict[str, Any]:
        system = [{"role": "system", "content": prompt.system_text}] if prompt.system_text else []
        # Plain text where it is plain: not every server takes a list.
        content = prompt.text if prompt.text is not None else [_part(part) for part in prompt.parts]
        request: dict[str, Any] = {
            "model": self.model,
            "messages": [*system, {"role": "user", "content": content}],
            self._limit: prompt.max_tokens,
        }
        if prompt.temperature is not None:
            request["temperature"] = prompt.temperature
        if prompt.rung == "json_schema":
            form = {"name": "verdict", "strict": True, "schema": prompt.schema}
            request["response_format"] = {"type": "json_schema", "json_schema": form}
        elif prompt.rung == "json_object":
            request["response_format"] = {"type": "json_object"}
        return request

    def _answer(self, body: Any) -> Answer | Fault:
        if isinstance(body, str):  # what the SDK makes of a page that is not called JSON, a proxy's for example
            return Fault(self.clean(f"it answered with a page, not with JSON: {body[:100]}"))
        choices = body.get("choices") if isinstance(body, dict) else None
        choice = choices[0] if isinstance(choices, list) and choices else None
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(message, dict):
            # Some proxies put an error into a 200.
            return Fault(self.clean(f"it answered without a choice: {server_words(body, 'no reason given')}"))
        refusal, finish = _text(message.get("refusal")), choice.get("finish_reason")
        refused = bool(refusal) or finish == "content_filter"
        usage = body["usage"] if isinstance(body.get("usage"), dict) else {}
        return Answer(
            text=self.clean(refusal or _text(message.get("content"))),
            finish="refused" if refused else "length" if finish == "length" else "stop",
            prompt_tokens=_count(usage.get("prompt_tokens")),
            completion_tokens=_count(usage.get("completion_tokens")),
            model=self.clean(_text(body.get("model"))) or None,
        )

    def models(self) -> list[str]:
        import openai

        try:
            return sorted(self.clean(model.id) for model in self._client.models.list().data)
        except (openai.OpenAIError, ValueError, AttributeError, TypeError):  # many servers have no such list
            return []

    def clean(self, text: str) -> str:
        return self._secrets.clean(text)

    def close(self) -> None:
        self._client.close()


def _part(part: str | Image) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    data = base64.b64encode(part.data).decode("ascii")
    return {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{data}"}}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(number: Any) -> int | None:
    return number if isinstance(number, int) and not isinstance(number, bool) else None
