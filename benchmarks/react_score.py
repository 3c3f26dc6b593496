"""How long compiling and linting 64 distinct samples takes. Target: under 3 s on 2 cores with booted workers.

    python benchmarks/react_score.py [--workers 2] [--rounds 5]

Samples are the size of a real answer (about 45 lines); a quarter of them have a syntax error, a lint error or an
unknown package. Boot time stands apart: in a run the workers boot while the policy loads. Nothing is served from the
result cache, for every round has code of its own; `cached` then repeats the last round.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

import psutil

from botgrpo_cli.tasks.react.toolchain import toolchain_versions
from botgrpo_cli.tasks.react.workers import ReactChecker

SAMPLES = 64

TEMPLATE = """\
import {{ useState, useEffect, useMemo }} from 'react';

const INITIAL_{n} = [
  {{ id: 1, name: 'Milk', price: {n}, done: false }},
  {{ id: 2, name: 'Bread', price: 4, done: true }},
];

function Row{n}({{ item, onToggle }}) {{
  return (
    <li className="flex items-center gap-2 p-2">
      <label>
        <input type="checkbox" checked={{item.done}} onChange={{() => onToggle(item.id)}} />
        <span>{{item.name}}</span>
      </label>
      <span className="ml-auto">${{item.price.toFixed(2)}}</span>
    </li>
  );
}}

export default function Shop{n}() {{
  const [items, setItems] = useState(INITIAL_{n});
  const [query, setQuery] = useState('');
  const shown = useMemo(() => items.filter((item) => item.name.includes(query)), [items, query]);
  const total = shown.reduce((sum, item) => sum + item.price, 0);

  useEffect(() => {{
    document.title = `Shop {n}: ${{total}}`;
  }}, [total]);

  const toggle = (id) => {{
    setItems((old) => old.map((item) => (item.id === id ? {{ ...item, done: !item.done }} : item)));
  }};

  return (
    <main className="mx-auto max-w-md">
      <h1>Shop {n}</h1>
      <input value={{query}} onChange={{(e) => setQuery(e.target.value)}} placeholder="Search" />
      <ul>
        {{shown.map((item) => (
          <Row{n} key={{item.id}} item={{item}} onToggle={{toggle}} />
        ))}}
      </ul>
      <p>{{shown.length === 0 ? 'Nothing found' : `Total ${{total}}`}}</p>
    </main>
  );
}}
"""

DAMAGE = {
    3: lambda code: code.replace("</ul>", "</li>"),
    7: lambda code: code.replace("setQuery(e", "setSearch(e"),
    11: lambda code: "import _ from 'lodash';\n" + code,
    15: lambda code: code.replace(")));", "));"),
}


def samples(round_number: int) -> list[str]:
    """64 distinct samples, none of them in another round."""
    codes = [TEMPLATE.format(n=1000 * (round_number + 1) + n) for n in range(SAMPLES)]
    return [DAMAGE.get(n % 16, str)(code) for n, code in enumerate(codes)]


def processor_seconds(checker: ReactChecker) -> float:
    """Processor time of the workers and their esbuild processes so far: steady also on a busy machine."""
    times = [process.cpu_times() for pid in checker.pids for process in family(pid)]
    return sum(used.user + used.system for used in times)


def family(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def seconds(checker: ReactChecker, codes: list[str]) -> float:
    start = time.perf_counter()
    results = [future.result() for future in [checker.submit(code) for code in codes]]
    assert sum(result.compiled for result in results) == SAMPLES * 13 // 16
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()

    print(f"cores {os.cpu_count()}, workers {options.workers}, {toolchain_versions()}")
    start = time.perf_counter()
    with ReactChecker(options.workers, timeout=60) as checker:
        for future in [checker.submit(f"export default () => <p>{n}</p>;") for n in range(2 * options.workers)]:
            future.result()
        print(f"boot                 {time.perf_counter() - start:6.2f} s")
        first = seconds(checker, samples(0))
        print(f"first {SAMPLES} samples     {first:6.2f} s   (V8 and the parsers still warming up)")
        used = processor_seconds(checker)
        rounds = [seconds(checker, samples(n + 1)) for n in range(options.rounds)]
        median = statistics.median(rounds)
        print(f"next rounds, median  {median:6.2f} s   {SAMPLES / median:.0f} samples/s, range ", end="")
        print(f"{min(rounds):.2f}-{max(rounds):.2f} s")
        used = (processor_seconds(checker) - used) / (options.rounds * SAMPLES)
        print(f"processor time       {used * 1000:6.1f} ms a sample", end="")
        print(f", which makes {SAMPLES * used / 2:.2f} s for {SAMPLES} on two free cores")
        print(f"cached               {seconds(checker, samples(options.rounds)) * 1000:6.2f} ms")


if __name__ == "__main__":
    main()
