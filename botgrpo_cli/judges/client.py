"""The judge that asks a server: cache, cap on calls in flight, retries, parsing, one re-ask, counters."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from botgrpo_cli.errors import RunError
from botgrpo_cli.futures import ready, then
from botgrpo_cli.judges.base import Ask, Image, Judge, Outcome, Reply
from botgrpo_cli.judges.cache import ReplyCache, Stored, cache_file, reply_key
from botgrpo_cli.judges.connect import open_transport, probe_transport
from botgrpo_cli.judges.cost import Meter, Tokens
from botgrpo_cli.judges.parse import Malformed, looks_refused, read_object, require_schema
from botgrpo_cli.judges.probe import Probe
from botgrpo_cli.judges.retry import FailureLimit, Patience, Stopped
from botgrpo_cli.judges.settings import ONLINE, resolve
from botgrpo_cli.judges.transport import Answer, Fault, Prompt, Transport
from botgrpo_cli.recipe.schema import JudgeConfig

Say = Callable[[str], None]


def make_judge(config: JudgeConfig, *, say: Say = lambda _: None, patience: Patience | None = None) -> Judge | None:
    """The judge of a recipe's `judge:` section, probed; None for the offline kinds, which need no server.

    Raises InputError when address, model or key are missing or wrong, or the server cannot be used.
    """
    if config.kind not in ONLINE:
        return None
    settings = resolve(config)
    transport = open_transport(settings, config)
    patience = patience or Patience(config.tries)
    try:
        say(f"Asking the judge {transport.model} at {transport.host} what it can do.")
        found = probe_transport(transport, config, settings, patience)
        cache = ReplyCache(cache_file(), say) if config.cache else None
    except BaseException:
        transport.close()
        raise
    return JudgeClient(transport, config, found, patience=patience, cache=cache)


class JudgeClient:
    """A `Judge` over one server. What `Judge` promises of errors and threads holds here."""

    def __init__(
        self,
        transport: Transport,
        config: JudgeConfig,
        found: Probe,
        *,
        patience: Patience | None = None,
        cache: ReplyCache | None = None,
    ) -> None:
        self.config, self.found = config, found
        self.sees_images = found.sees_images
        self.label = f"{transport.kind}:{transport.model}"
        self._transport, self._cache = transport, cache
        self._patience = patience or Patience(config.tries)
        self._meter = Meter(config.prices)
        self._limit = FailureLimit()
        self._places = threading.BoundedSemaphore(config.concurrency)
        self._pool = ThreadPoolExecutor(config.concurrency, thread_name_prefix="judge")
        self._asked: dict[str, Future[Reply]] = {}  # calls in flight, so that equal ones of a group are made once
        self._lock = threading.Lock()
        self._stopped: str | None = None  # why no further call is made
        self._sender = {
            "kind": transport.kind,
            "address": transport.address,
            "model": transport.model,
            "served": found.model,
            "rung": found.rung,
            "temperature": config.temperature,
            "max_tokens": config.max_tokens,
        }

    def ask(self, ask: Ask) -> Reply:
        future, work = self._enter(ask)
        if work is not None:
            work()
        return future.result()

    def submit(self, ask: Ask) -> Future[Reply]:
        future, work = self._enter(ask)
        if work is not None:
            try:
                self._pool.submit(work)
            except RuntimeError:  # the pool is shut down; the work finds that out and fails the future
                work()
        return future

    def counters(self) -> dict[str, float | None]:
        return self._meter.take()

    def describe(self) -> dict[str, Any]:
        return {
            "kind": self._transport.kind,
            "model": self._transport.model,
            "served_model": self.found.model,
            "host": self._transport.host,
            "structured_output": self.found.rung,
            "sees_images": self.sees_images,
            "images": self.found.images,
            "reports_tokens": self.found.reports_tokens,
            "temperature": self.config.temperature,
            "max_tokens": self.config.max_tokens,
            "so_far": self._meter.total(),
        }

    def close(self) -> None:
        with self._lock:
            self._stopped = self._stopped or "The judge was closed."
        self._patience.stopping.set()
        self._pool.shutdown(wait=False)  # what is queued still runs, and fails at once: its futures are waited for
        self._transport.close()
        if self._cache is not None:
            self._cache.close()

    def _enter(self, ask: Ask) -> tuple[Future[Reply], Callable[[], None] | None]:
        """The future of `ask`, and the work that brings it; None when it is there or another ask brings it.

        Nobody waits in a thread of the pool for an equal ask, so that all places stay open for others.
        """
        pending: Future[Reply] = Future()
        if not self.sees_images and any(isinstance(part, Image) for part in ask.parts):
            pending.set_exception(RunError(f"The judge {self.label} does not see images: {self.found.images}."))
            return pending, None
        if self._cache is None:
            return then(pending, self._counted), lambda: self._bring(pending, lambda: self._call(ask))
        key = reply_key(self._sender, ask)
        if (kept := self._kept(key, ask)) is not None:
            return ready(self._counted(kept)), None
        with self._lock:
            if (other := self._asked.get(key)) is not None:
                return then(other, lambda reply: self._counted(replace(reply, cached=True, seconds=0.0))), None
            self._asked[key] = pending

        def bring() -> None:
            try:
                self._bring(pending, lambda: self._call_and_keep(key, ask))
            finally:
                with self._lock:
                    del self._asked[key]

        return then(pending, self._counted), bring

    def _bring(self, pending: Future[Reply], call: Callable[[], Reply]) -> None:
        try:
            reply = call()
        except BaseException as error:
            pending.set_exception(error)
        else:
            pending.set_result(reply)

    def _call_and_keep(self, key: str, ask: Ask) -> Reply:
        assert self._cache is not None
        # An equal ask may have ended, or another process may have kept its reply, since the first look.
        if (kept := self._kept(key, ask)) is not None:
            return kept
        reply = self._call(ask)
        if reply.value is not None:
            self._cache.put(key, Stored(reply.value, reply.text, reply.prompt_tokens, reply.completion_tokens))
        return reply

    def _counted(self, reply: Reply) -> Reply:
        self._meter.replied(reply)
        return reply

    def _kept(self, key: str, ask: Ask) -> Reply | None:
        """The reply in the cache, unless `ask.check` has become stricter than it was."""
        assert self._cache is not None
        stored = self._cache.get(key)
        if stored is None:
            return None
        try:
            if ask.check is not None:
                ask.check(stored.value)
        except ValueError:
            return None
        return Reply("ok", stored.value, stored.text, True, 0.0, stored.prompt_tokens, stored.completion_tokens)

    def _call(self, ask: Ask) -> Reply:
        """At most two requests that are answered: the ask, and a re-ask when the reply cannot be used."""
        with self._places:
            started, tokens = time.monotonic(), Tokens()

            def reply(outcome: Outcome, text: str, value: dict | None = None) -> Reply:
                answered = outcome != "transport_failed" or complaint
                spent = (tokens.prompt, tokens.completion) if answered else (None, None)
                return Reply(outcome, value, text, False, time.monotonic() - started, *spent)

            complaint = text = ""
            for _ in range(2):
                try:
                    answer = self._send(self._prompt(ask, complaint))
                except Fault as fault:
                    self._failed(fault)
                    return reply("transport_failed", f"No answer, tried up to {self.config.tries} times: {fault}.")
                tokens.add(answer.prompt_tokens, answer.completion_tokens)
                text = answer.text
                if answer.finish == "refused" or looks_refused(text):
                    return reply("refused", text)
                try:
                    return reply("ok", text, self._read(answer, ask))
                except Malformed as why:
                    complaint = str(why)
            return reply("malformed", f"Not usable: {complaint} The model wrote: {text}")

    def _read(self, answer: Answer, ask: Ask) -> dict:
        if answer.finish == "length":
            raise Malformed(f"It was cut off at {self.config.max_tokens} tokens; be shorter.")
        value = read_object(answer.text)
        if ask.check is None:
            require_schema(value, ask.schema, entries=False)
            return value
        try:
            ask.check(value)
        except ValueError as error:
            raise Malformed(str(error)) from None
        return value

    def _prompt(self, ask: Ask, complaint: str) -> Prompt:
        again = f"Your last reply could not be used. {complaint} Reply again, with the JSON object alone."
        parts = (*ask.parts, again) if complaint else ask.parts
        return Prompt(ask.system, parts, ask.schema, self.found.rung, self.config.temperature, self.config.max_tokens)

    def _send(self, prompt: Prompt) -> Answer:
        def attempt() -> Answer:
            if self._stopped is not None:
                raise Stopped
            self._meter.called()
            return self._transport.send(prompt)

        try:
            answer = self._patience.call(attempt)
        except Stopped:
            raise RunError(self._stopped or "The judge was closed.") from None
        self._meter.answered(answer.prompt_tokens, answer.completion_tokens)
        self._limit.record(failed=False)
        return answer

    def _failed(self, fault: Fault) -> None:
        """Stops the run when no further call can help."""
        where = f"The judge {self.label} at {self._transport.host}"
        if not fault.again:
            self._stop(f"{where} refused a call with {fault}. Mend that and go on with --resume.")
        if too_many := self._limit.record(failed=True):
            self._stop(f"{where} is not to be relied on: {too_many}, the last with {fault}. Go on later with --resume.")

    def _stop(self, message: str) -> None:
        """Raises RunError here and in every other call, those that wait included."""
        with self._lock:
            self._stopped = self._stopped or message
        self._patience.stopping.set()
        raise RunError(self._stopped) from None
