"""Bytes of generated tokens, and the lines they stand on.

A reward that a tool gives to a line has to reach exactly the tokens that wrote the line. Decoding token by
token can't do that (a token may hold half a character), so everything here counts bytes.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Sequence
from typing import Any

from botgrpo_cli.errors import InputError

_REASONING = re.compile(r"</?think(?:ing)?>")
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SELF_CHECK_TEXTS = (
    "export default function App() {\n  return <p className='a'>2 + 2 = 4</p>;\n}\n",
    "naïve café — “quoted” … 日本語 🙂\n\n\tif (x >= 1) { y() }\r\n",
    "   leading,  double  and trailing spaces   ",
)
_SELF_CHECK_IDS = 4096  # ids of the vocabulary that the self-check decodes, evenly spread


def line_of_token(pieces: Sequence[bytes]) -> list[int]:
    r"""The 0-based line that each token belongs to.

    A token belongs to the line of its first byte that is not ASCII white space: the number of `b"\n"` before that
    byte, counted from the first token. A token of white space alone belongs to the line of its first byte, so the
    line break at the end of a line is part of that line. An empty piece (a special token such as EOS) is on no
    line: -1. Apart from -1, lines never decrease. Our choice; the paper says only that a line's penalty goes to the
    line's tokens.

    Shapes: pieces [T], result [T].

    >>> line_of_token([b"a", b" b", b"\n", b"  ", b"c", b"\n\n  d", b""])
    [0, 0, 0, 1, 1, 3, -1]
    """
    lines: list[int] = []
    before = 0  # line breaks in the pieces so far
    for piece in pieces:
        if not piece:
            lines.append(-1)
            continue
        rest = piece.lstrip()
        breaks = piece.count(b"\n")
        lines.append(before + breaks - rest.count(b"\n") if rest else before)
        before += breaks
    return lines


def readable(pieces: Sequence[bytes]) -> list[str]:
    """The text that each token completes, for people: a character in several tokens stands with the last of them.

    Shapes: pieces [T], result [T].

    >>> readable([b"a", b"\\xc3", b"\\xa9b", b""])
    ['a', '', '\u00e9b', '']
    """
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    texts = [decoder.decode(piece) for piece in pieces]
    if texts and (rest := decoder.decode(b"", final=True)):
        texts[-1] += rest
    return texts


class TokenBytes:
    """The bytes of every id of a tokenizer, so that generated ids never have to be decoded and encoded again.

    Two kinds of tokenizer are read, told apart by their decoder and not by their name:

    - byte-level BPE (Qwen, SmolLM, Llama 3, Phi-4-mini): each character of a token stands for one byte.
    - SentencePiece: `<0xNN>` is one byte, U+2581 is a space, anything else is its UTF-8 text. Decoding drops the
      space at the very beginning of a text; here it is kept, because a completion goes on from a prompt.
      For bytes that aren't valid UTF-8 that kind of decoder writes one U+FFFD a byte; the bytes here are the truth.

    Special tokens have no bytes, nor have ids beyond the vocabulary, which a policy whose embedding is padded can
    sample. The tags around reasoning, `<think>` and `</think>`, are text even where a tokenizer calls them special:
    what stands between them is no answer, and only the tags can tell.

    Raises InputError when the tokenizer has no fast backend, when its decoder is of neither kind, and when the
    bytes disagree with what it decodes in the self-check (multi-byte texts, added tokens, ids spread over the
    whole vocabulary).
    """

    def __init__(self, tokenizer: Any) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise InputError(
                f"The tokenizer {type(tokenizer).__name__} has no fast backend (tokenizer.json), so the bytes of its "
                "tokens can't be read. Use a model whose tokenizer is a fast one."
            )
        self._backend = backend
        added = backend.get_added_tokens_decoder()
        spoken = frozenset(i for i, token in added.items() if token.special and _REASONING.fullmatch(token.content))
        self._special = frozenset(i for i, token in added.items() if token.special) - spoken
        convert = _converter(json.loads(backend.to_str()).get("decoder"))
        vocabulary = backend.get_vocab(with_added_tokens=True)
        table = [b""] * (max(vocabulary.values(), default=-1) + 1)
        for token, i in vocabulary.items():
            if i not in self._special:
                table[i] = convert(token)
        self._table = table
        self._check([i for i in added if i not in self._special | spoken], leave_out=spoken)

    def special(self, i: int) -> bool:
        """Whether the id is a special token such as EOS (never part of the text)."""
        return i in self._special

    def pieces(self, ids: Sequence[int]) -> tuple[bytes, ...]:
        """The bytes of each id, `b""` for special ones. Shapes: ids [T], result [T]. ValueError for an id below 0."""
        if ids and min(ids) < 0:
            raise ValueError(f"token id {min(ids)} is negative")
        table, size = self._table, len(self._table)
        return tuple(table[i] if i < size else b"" for i in ids)

    def _check(self, added: list[int], *, leave_out: frozenset[int]) -> None:
        samples = [self._backend.encode(text, add_special_tokens=False).ids for text in _SELF_CHECK_TEXTS]
        samples += [[i] for i in added]
        stride = max(1, len(self._table) // _SELF_CHECK_IDS)
        # Single bytes of 0x80 and up are left out of the sweep: no decoder shows them alone. The texts have them.
        sweep = (i for i in range(0, len(self._table), stride) if i not in leave_out)
        samples += [[i] for i in sweep if _is_utf8(self._table[i])]
        # Decoders may treat the first token in a special way; one plain token in front keeps that off the sample.
        front = next((i for i, piece in enumerate(self._table) if re.fullmatch(rb"[a-z]", piece)), None)
        start = [] if front is None else [front]
        skip = len(self._backend.decode(start, skip_special_tokens=True))
        for ids in samples:
            wanted = self._backend.decode(start + ids, skip_special_tokens=True)[skip:]
            found = b"".join(self.pieces(ids)).decode("utf-8", errors="replace")
            if wanted != found:
                raise InputError(
                    "The bytes read from this tokenizer disagree with what it decodes: ids "
                    f"{ids[:8]} decode to {wanted[:60]!r} but their bytes spell {found[:60]!r}. "
                    "Rewards could not be given to the right tokens; use a byte-level BPE or SentencePiece tokenizer."
                )


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _converter(decoder: dict | None):
    """token -> bytes, from the `decoder` entry of tokenizer.json."""
    steps = _flatten(decoder)
    kinds = [step["type"] for step in steps]
    if "ByteLevel" in kinds:
        byte_of = _gpt2_bytes()

        def from_byte_level(token: str) -> bytes:
            try:
                return bytes(byte_of[character] for character in token)
            except KeyError:  # an added token with a character outside the table stands for its own text
                return token.encode("utf-8")

        return from_byte_level

    spaces = [step["replacement"] for step in steps if step["type"] == "Metaspace"]
    swaps = [(mark, " ") for mark in spaces]
    swaps += [(s["pattern"].get("String"), s["content"]) for s in steps if s["type"] == "Replace"]
    known = {"Metaspace", "Replace", "ByteFallback", "Fuse", "Strip"}
    if not swaps or not set(kinds) <= known or any(old is None for old, _ in swaps):
        raise InputError(
            f"The decoder of this tokenizer ({', '.join(kinds) or 'none'}) is neither byte-level nor SentencePiece, so "
            "the bytes of its tokens are unknown. Use a model with a byte-level BPE or SentencePiece tokenizer."
        )
    fallback = "ByteFallback" in kinds

    def from_sentencepiece(token: str) -> bytes:
        byte = _BYTE_TOKEN.fullmatch(token) if fallback else None
        if byte:
            return bytes([int(byte[1], 16)])
        for old, new in swaps:
            token = token.replace(old, new)
        return token.encode("utf-8")

    return from_sentencepiece


def _flatten(decoder: dict | None) -> list[dict]:
    if decoder is None:
        return []
    if decoder["type"] == "Sequence":
        return [step for inner in decoder["decoders"] for step in _flatten(inner)]
    return [decoder]


def _gpt2_bytes() -> dict[str, int]:
    """Character -> byte in byte-level BPE: printable Latin-1 stands for itself, the rest for U+0100 and up, in order.

    >>> table = _gpt2_bytes()
    >>> len(table), table["A"], table["Ġ"], table["Ċ"]
    (256, 65, 32, 10)
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + n): byte for n, byte in enumerate(others)}
