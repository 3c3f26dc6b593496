"""A server with OpenAI's chat completions on the loopback interface, that misbehaves as it is told.

Without orders it behaves well: it enforces schemas, says which colour a picture has, and counts tokens.
"""

from __future__ import annotations

import base64
import json
import re
import socket
import struct
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from botgrpo_cli.judges.probe import COLOURS


@dataclass
class Response:
    """What goes out. `act` instead of a body does something to the connection."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    act: Callable[[BaseHTTPRequestHandler, Server], None] | None = None


Answering = Callable[[dict], Response]


def chat(text: str | None, *, finish: str = "stop", refusal: str | None = None, usage: bool = True) -> Response:
    """A completion that says `text`."""
    message = {"role": "assistant", "content": text, "refusal": refusal}
    body = {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "served-model",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }
    if usage:
        body["usage"] = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return Response(body=body)


def error(status: int, words: str = "broken", *, code: str | None = None, **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status, {"error": {"message": words, "code": code}}, named)


def stall() -> Response:
    """Says nothing until the server is closed."""
    return Response(act=lambda handler, server: server.closing.wait())


def reset() -> Response:
    """Breaks the connection off with a TCP reset."""

    def act(handler: BaseHTTPRequestHandler, server: Server) -> None:
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        handler.connection.close()

    return Response(act=act)


def cut_body() -> Response:
    """Promises more than it sends."""

    def act(handler: BaseHTTPRequestHandler, server: Server) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b'{"choices": [')
        handler.close_connection = True

    return Response(act=act)


def behave(request: dict) -> Response:
    """The good server."""
    form = request.get("response_format", {})
    schema = form["json_schema"]["schema"] if form.get("type") == "json_schema" else None
    content = request["messages"][-1]["content"]
    pictures = [] if isinstance(content, str) else [part for part in content if part["type"] == "image_url"]
    if pictures:
        name = colour_of(base64.b64decode(pictures[-1]["image_url"]["url"].partition("base64,")[2]))
        return chat(json.dumps({"colour": name}))
    if schema is not None:
        return chat(json.dumps(instance(schema)))
    return chat("{}" if form.get("type") == "json_object" else "Hello!")


def look_alike(request: dict) -> Response:
    """As servers that take any request: no schema is enforced, pictures are dropped, and every status is 200."""
    return chat("Sure! I think the colour is red. Is there anything else?")


def instance(schema: dict) -> Any:
    """A small value that is valid under `schema`."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        return {name: instance(inner) for name, inner in schema.get("properties", {}).items()}
    return {"array": [], "string": "words", "integer": schema.get("minimum", 0), "boolean": False}.get(kind)


def colour_of(png: bytes) -> str:
    """The name of the first pixel's colour: the picture must really have arrived."""
    data = zlib.decompress(re.search(rb"IDAT(.*)....\0\0\0\0IEND", png, re.DOTALL)[1])
    return next(name for name, rgb in COLOURS.items() if bytes(rgb) == data[1:4])


class Server:
    """`script` is answered first, one response a request; then `answering` answers."""

    def __init__(self) -> None:
        self.answering: Answering = behave
        self.script: deque[Response | Answering] = deque()
        self.requests: list[dict] = []
        self.headers: list[dict[str, str]] = []
        self.closing = threading.Event()
        self.models = ["served-model", "other-model"]
        self.in_flight = self.most_in_flight = 0
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer._lock:
                    outer.requests.append(body)
                    outer.headers.append({name.lower(): value for name, value in self.headers.items()})
                    outer.in_flight += 1
                    outer.most_in_flight = max(outer.most_in_flight, outer.in_flight)
                    order = outer.script.popleft() if outer.script else outer.answering
                try:
                    self.send(order(body) if callable(order) else order)
                finally:
                    with outer._lock:
                        outer.in_flight -= 1

            def do_GET(self) -> None:
                self.send(Response(body={"object": "list", "data": [{"id": name} for name in outer.models]}))

            def send(self, response: Response) -> None:
                if response.act is not None:
                    response.act(self, outer)
                    self.close_connection = True
                    return
                page = isinstance(response.body, str)
                data = response.body.encode() if page else json.dumps(response.body).encode()
                self.send_response(response.status)
                self.send_header("Content-Type", "text/html" if page else "application/json")
                self.send_header("Content-Length", str(len(data)))
                for name, value in response.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *arguments: Any) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *arguments: Any) -> None:
                pass  # a client that went away is what some tests are about

        self._http = Quiet(("127.0.0.1", 0), Handler)
        self.port = self._http.server_address[1]
        self.root = f"http://127.0.0.1:{self.port}"
        self.url = f"{self.root}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@contextmanager
def running() -> Iterator[Server]:
    server = Server()
    try:
        yield server
    finally:
        server.close()
