"""How much the judge's client adds to a server that takes 200 ms a call. Target: 256 calls with 16 in flight within
1.3 times the ideal 3.2 s, and no call at all when the same step comes again.

    python benchmarks/judge_calls.py [--calls 256] [--in-flight 16] [--milliseconds 200] [--rounds 3]

The server is a process of its own on the loopback interface; the client is the one of training, probe, cache and
parsing included, with the code judge's prompt and a reply of its size. Each round asks about other code, so that
nothing comes from the cache; then the last round is asked again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection

VERDICT = {
    "why": "It does what was asked; the reset button has no handler.",
    "not_react": False,
    "validity": 9,
    "task": 6,
    "aesthetic": 5,
    "lines": [{"line": 5, "impact": 6, "why": "no handler"}],
}
CODE = "export default function App() {{\n  return <main><h1>Number {n}</h1>\n{rows}  </main>;\n}}\n"
ROWS = "".join(f"    <p className='row'>Row {row}</p>\n" for row in range(40))


def serve(seconds: float, address: Connection) -> None:
    """Answers every request with the verdict after `seconds`; counts them under GET /count."""
    count = 0

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            nonlocal count
            self.rfile.read(int(self.headers["Content-Length"]))
            count += 1
            time.sleep(seconds)
            message = {"role": "assistant", "content": json.dumps(VERDICT)}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 900, "completion_tokens": 80, "total_tokens": 980}
            self.send({"id": "1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage})

        def do_GET(self) -> None:
            self.send({"count": count})

        def send(self, body: dict) -> None:
            data = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 128

    server = Server(("127.0.0.1", 0), Handler)
    address.send(server.server_address[1])
    server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--calls", type=int, default=256)
    parser.add_argument("--in-flight", type=int, default=16)
    parser.add_argument("--milliseconds", type=float, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()

    there, here = multiprocessing.Pipe()
    serving = (options.milliseconds / 1000, here)
    process = multiprocessing.get_context("spawn").Process(target=serve, args=serving, daemon=True)
    process.start()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["BOTGRPO_CACHE"] = cache
        measure(options, f"http://127.0.0.1:{there.recv()}/v1")
    process.terminate()


def measure(options: argparse.Namespace, url: str) -> None:
    from botgrpo_cli.judges.client import make_judge
    from botgrpo_cli.recipe.schema import JudgeConfig
    from botgrpo_cli.tasks.base import Prompt
    from botgrpo_cli.tasks.react.judges.code import code_ask

    started = time.perf_counter()
    judge = make_judge(JudgeConfig(kind="openai", url=url, model="m", concurrency=options.in_flight))
    assert judge is not None
    took = time.perf_counter() - started
    print(f"cores {os.cpu_count()}, load {os.getloadavg()[0]:.1f}; SDK import and probe {took:.2f} s")

    def step(first: int) -> tuple[float, float]:
        """Wall and processor seconds of one step, the questions written beforehand."""
        prompt = Prompt("p", "A list of rows.", "easy")
        asks = [code_ask(prompt, CODE.format(n=first + n, rows=ROWS), lines=True) for n in range(options.calls)]
        wall, used = time.perf_counter(), time.process_time()
        replies = [future.result() for future in [judge.submit(each) for each in asks]]
        assert all(reply.outcome == "ok" for reply in replies)
        return time.perf_counter() - wall, time.process_time() - used

    ideal = options.calls / options.in_flight * options.milliseconds / 1000
    rounds = [step(number * options.calls) for number in range(options.rounds)]
    judge.counters()
    again, _ = step((options.rounds - 1) * options.calls)
    counted = judge.counters()
    judge.close()
    wall = statistics.median(seconds for seconds, _ in rounds)
    used = statistics.median(seconds for _, seconds in rounds)
    print(
        f"{options.calls} calls, {options.in_flight} in flight, {options.milliseconds:.0f} ms each: ideal {ideal:.2f} s"
    )
    print(f"median of {options.rounds}   {wall:6.2f} s   {wall / ideal:.2f} x the ideal", end="")
    print(f", range {min(s for s, _ in rounds):.2f}-{max(s for s, _ in rounds):.2f} s")
    print(f"processor     {used / options.calls * 1000:6.2f} ms a call, the client's side")
    print(f"the same step {again:6.2f} s   {counted['calls']:.0f} calls, {counted['cache_hits']:.0f} from the cache")


if __name__ == "__main__":
    main()
