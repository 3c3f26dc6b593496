"""Amazon Bedrock's `converse`, the paper's setting, through boto3 (the extra `bedrock`).

Region and credentials are found as boto3 finds them; `judge.url` names another endpoint.
"""

from __future__ import annotations

import json
import os
from typing import Any

from botgrpo_cli.errors import InputError
from botgrpo_cli.judges.base import Image
from botgrpo_cli.judges.retry import parse_retry_after
from botgrpo_cli.judges.settings import Secrets, Settings, host_of
from botgrpo_cli.judges.transport import Answer, Fault, Prompt, Rung

CONNECT = 10.0  # seconds
REFUSALS = ("content_filtered", "guardrail_intervened")
CUT = ("max_tokens", "model_context_window_exceeded")
PASSING = ("ModelErrorException",)  # 424: the model failed on this request, which the service says may pass


class BedrockTransport:
    """One model on Bedrock. botocore's own retries are off."""

    kind = "bedrock"
    rungs: tuple[Rung, ...] = ("json_schema", "prompt")

    def __init__(self, settings: Settings, *, timeout: float, concurrency: int) -> None:
        """`timeout` is the longest silence of the service, in seconds. Raises InputError for what boto3 lacks."""
        try:
            import boto3
            from botocore.config import Config
            from botocore.exceptions import BotoCoreError
        except ImportError:
            raise InputError("judge.kind is bedrock, which needs boto3: `pip install 'botgrpo[bedrock]'`.") from None
        config = Config(
            retries={"total_max_attempts": 1},
            connect_timeout=min(CONNECT, timeout),
            read_timeout=timeout,
            max_pool_connections=concurrency,
        )
        # boto3 itself knows AWS_DEFAULT_REGION alone; every other SDK of AWS takes AWS_REGION.
        session = boto3.session.Session(region_name=os.environ.get("AWS_REGION") or None)
        bearer = os.environ.get("AWS_BEARER_TOKEN_BEDROCK")
        try:
            credentials = session.get_credentials()
            self._client = session.client("bedrock-runtime", config=config, endpoint_url=settings.url)
        except (BotoCoreError, ValueError) as error:
            raise InputError(f"judge.kind is bedrock, and boto3 cannot start: {error} Set AWS_REGION.") from None
        if credentials is None and not bearer:
            raise InputError(
                "judge.kind is bedrock, and boto3 finds no credentials. Set AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, or AWS_BEARER_TOKEN_BEDROCK, or AWS_PROFILE."
            )
        frozen = credentials.get_frozen_credentials() if credentials else None
        held = [frozen.access_key, frozen.secret_key, frozen.token] if frozen else []
        self._secrets = Secrets([*held, bearer])
        self.model = settings.model
        self.address = self._client.meta.endpoint_url
        self.host = host_of(self.address)

    def send(self, prompt: Prompt) -> Answer:
        """See `Transport`. Faults are raised without their cause, which holds the request."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            response = self._client.converse(**self._request(prompt))
        except ClientError as error:
            fault = self._refused(error.response)
        except BotoCoreError as error:
            fault = Fault(self.clean(f"the connection failed ({error})"))
        else:
            return self._answer(response)
        raise fault

    def _refused(self, response: dict[str, Any]) -> Fault:
        said, about = response.get("Error", {}), response.get("ResponseMetadata", {})
        code = said.get("Code", "")
        words = self.clean(f"{code}: {said.get('Message', '')}")
        wait = parse_retry_after(about.get("HTTPHeaders", {}))
        return Fault(words, about.get("HTTPStatusCode"), retry_after=wait, again=True if code in PASSING else None)

    def _request(self, prompt: Prompt) -> dict[str, Any]:
        limits: dict[str, Any] = {"maxTokens": prompt.max_tokens}
        if prompt.temperature is not None:
            limits["temperature"] = prompt.temperature
        request: dict[str, Any] = {
            "modelId": self.model,
            "messages": [{"role": "user", "content": [_part(part) for part in prompt.parts]}],
            "inferenceConfig": limits,
        }
        if prompt.system_text:
            request["system"] = [{"text": prompt.system_text}]
        if prompt.rung == "json_schema":
            form = {"jsonSchema": {"name": "verdict", "schema": json.dumps(prompt.schema)}}
            request["outputConfig"] = {"textFormat": {"type": "json_schema", "structure": form}}
        return request

    def _answer(self, response: dict[str, Any]) -> Answer:
        parts = response.get("output", {}).get("message", {}).get("content", [])
        text = "".join(part["text"] for part in parts if isinstance(part.get("text"), str))
        stop, usage = response.get("stopReason"), response.get("usage") or {}
        return Answer(
            text=self.clean(text),
            finish="refused" if stop in REFUSALS else "length" if stop in CUT else "stop",
            prompt_tokens=usage.get("inputTokens"),
            completion_tokens=usage.get("outputTokens"),
            model=None,
        )

    def models(self) -> list[str]:
        return []  # another service of AWS, with permissions of its own

    def clean(self, text: str) -> str:
        return self._secrets.clean(text)

    def close(self) -> None:
        self._client.close()


def _part(part: str | Image) -> dict[str, Any]:
    if isinstance(part, str):
        return {"text": part}
    return {"image": {"format": part.media_type.rpartition("/")[2], "source": {"bytes": part.data}}}
