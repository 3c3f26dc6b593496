"""How long drawing 64 compiled components takes, and how much memory. Target: within 10 s on 2 cores, browsers booted.

    python benchmarks/react_render.py [--pages 2] [--rounds 3] [--tailwind]

The components are those that the tiny scale's generator writes for its own briefs, so they are as large as what the
tiny policy learns to write; `--tailwind` gives every one of them utility classes. Each round has code of its own:
nothing is served from the result cache. On a shared machine look at the processor time, which waiting does not change.
"""

from __future__ import annotations

import argparse
import os
import statistics
import threading
import time
from random import Random

import psutil

from botgrpo_cli.tasks.react.render import ReactRenderer
from botgrpo_cli.tiny.react import tasks, write

SAMPLES = 64
CLASSES = "min-h-screen bg-slate-50 p-8 text-slate-900 md:mx-auto"


def samples(round_number: int, tailwind: bool) -> list[str]:
    """64 distinct components, none of them in another round."""
    drawn = tasks("train")[SAMPLES * round_number : SAMPLES * (round_number + 1)]
    codes = [write(task, Random(f"{round_number}-{n}")) + f"// {round_number}-{n}\n" for n, task in enumerate(drawn)]
    if not tailwind:
        return codes
    return [
        code.replace('className="', f'className="{CLASSES} ', 1)
        if 'className="' in code
        else code.replace("export", f'export const classes = "{CLASSES}";\nexport', 1)
        for code in codes
    ]


def family(renderer: ReactRenderer) -> list[psutil.Process]:
    """Node, esbuild, the browsers and their children."""
    found = [psutil.Process(pid) for pid in renderer.pids]
    return found + [child for process in found for child in process.children(recursive=True)]


class Meter:
    """Watches all processes of a renderer: most memory at once, and processor time, also of those that have ended."""

    def __init__(self, renderer: ReactRenderer) -> None:
        self._renderer = renderer
        self._stop = threading.Event()
        self._times: dict[tuple[int, float], float] = {}
        self.peak = 0  # bytes; pages that several processes share are counted once (PSS) where the system says so
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._stop.wait(0.25):
            self.look()

    def look(self) -> None:
        total = 0
        for process in family(self._renderer):
            try:
                memory = process.memory_full_info()
                total += getattr(memory, "pss", memory.rss)
                used = process.cpu_times()
                self._times[process.pid, process.create_time()] = used.user + used.system
            except psutil.Error:
                continue
        self.peak = max(self.peak, total)

    def seconds(self) -> float:
        self.look()
        return sum(self._times.values())

    def __enter__(self) -> Meter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def draw(renderer: ReactRenderer, codes: list[str]) -> float:
    start = time.perf_counter()
    results = [future.result() for future in [renderer.submit(code) for code in codes]]
    failed = [result.why for result in results if result.outcome != "drawn"]
    assert not failed, failed
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pages", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tailwind", action="store_true")
    options = parser.parse_args()

    start = time.perf_counter()
    with ReactRenderer(pages=options.pages) as renderer, Meter(renderer) as meter:
        print(f"cores {os.cpu_count()}, load {os.getloadavg()[0]:.1f}, pages {options.pages}, {renderer.versions()}")
        draw(renderer, [f"export default () => <h1>{n} is drawn</h1>;" for n in range(2 * options.pages)])
        print(f"boot                 {time.perf_counter() - start:6.2f} s")
        used = meter.seconds()
        rounds = [draw(renderer, samples(n, options.tailwind)) for n in range(options.rounds)]
        used = (meter.seconds() - used) / (options.rounds * SAMPLES)
        median = statistics.median(rounds)
        print(f"{SAMPLES} samples, median  {median:6.2f} s   {SAMPLES / median:.1f} samples/s, range ", end="")
        print(f"{min(rounds):.2f}-{max(rounds):.2f} s")
        print(f"processor time       {used * 1000:6.0f} ms a sample", end="")
        print(f", which makes {SAMPLES * used / 2:.1f} s for {SAMPLES} on two free cores")
        print(f"most memory          {meter.peak / 1e6:6.0f} MB, all processes together")
        print(f"load at the end      {os.getloadavg()[0]:6.1f}")


if __name__ == "__main__":
    main()
