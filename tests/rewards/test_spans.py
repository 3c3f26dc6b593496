from __future__ import annotations

import json
import re
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from botgrpo_cli.errors import InputError
from botgrpo_cli.rewards.spans import TokenBytes, line_of_token

TEXTS = [
    "const a = 1;\n  return <p>naïve café</p>\n",
    "日本語 🙂 text\n\n\tx",
    "import { useState } from 'react'\n",
] * 4
ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def byte_level() -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=360,
        special_tokens=["<|endoftext|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(TEXTS, trainer)
    # Added tokens that aren't special are text: one in the byte table, one outside it, one that would be half of both.
    backend.add_tokens(["<tool_call>", "日x", AddedToken("é!", special=False)])
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|im_end|>", pad_token="<|im_end|>")


def unigram() -> PreTrainedTokenizerFast:
    words = ["▁", "▁▁▁", "▁the", "▁re", "é", "日", "ing", "🙂", "a▁b", ".", *ALPHABET]
    pieces = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0)]
    pieces += [(f"<0x{byte:02X}>", -12.0) for byte in range(256)]
    pieces += [(word, -float(n) / 4 - 1) for n, word in enumerate(words)]
    backend = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=True))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="first")])
    backend.add_special_tokens(["<s>", "</s>"])
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", eos_token="</s>")


def llama_like() -> PreTrainedTokenizerFast:
    words = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *ALPHABET, "▁a", "ab", "é", "日"]
    backend = Tokenizer(
        models.BPE(
            vocab={word: i for i, word in enumerate(words)},
            merges=[("▁", "a"), ("a", "b")],
            unk_token="<unk>",
            byte_fallback=True,
            fuse_unk=True,
        )
    )
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    backend.decoder = decoders.Sequence(steps)
    backend.add_special_tokens(["<s>", "</s>"])
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", eos_token="</s>")


BYTE_LEVEL = byte_level()
BYTE_LEVEL_MAP = TokenBytes(BYTE_LEVEL)
SENTENCEPIECE = {"unigram": unigram(), "llama": llama_like()}
SENTENCEPIECE_MAPS = {name: TokenBytes(tokenizer) for name, tokenizer in SENTENCEPIECE.items()}


@settings(max_examples=2000, deadline=None)
@given(st.lists(st.integers(0, len(BYTE_LEVEL) + 20), max_size=40))
def test_byte_level_bytes_spell_what_decode_says(ids):
    pieces = BYTE_LEVEL_MAP.pieces(ids)
    assert len(pieces) == len(ids)
    wanted = BYTE_LEVEL.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    assert b"".join(pieces).decode("utf-8", errors="replace") == wanted


def as_byte_fallback_shows(tokens: list[str], pieces: tuple[bytes, ...]) -> str:
    """What a byte-fallback decoder makes of the bytes: a run that isn't UTF-8 becomes one U+FFFD a byte."""
    text, run = "", b""
    for token, piece in zip(tokens, pieces, strict=True):
        if re.fullmatch("<0x..>", token):
            run += piece
            continue
        text += _shown(run) + piece.decode("utf-8")
        run = b""
    return text + _shown(run)


def _shown(run: bytes) -> str:
    try:
        return run.decode("utf-8")
    except UnicodeDecodeError:
        return "�" * len(run)


@pytest.mark.parametrize("name", SENTENCEPIECE)
@settings(max_examples=600, deadline=None)
@given(data=st.data())
def test_sentencepiece_bytes_spell_what_decode_says(name, data):
    tokenizer = SENTENCEPIECE[name]
    special = set(tokenizer.backend_tokenizer.get_added_tokens_decoder())
    ids = data.draw(st.lists(st.sampled_from([i for i in range(len(tokenizer)) if i not in special]), max_size=30))
    anchor = tokenizer.convert_tokens_to_ids("q")  # what follows a token is not at the beginning of the text
    wanted = tokenizer.decode([anchor, *ids], skip_special_tokens=True, clean_up_tokenization_spaces=False)
    pieces = SENTENCEPIECE_MAPS[name].pieces(ids)
    assert "q" + as_byte_fallback_shows(tokenizer.convert_ids_to_tokens(ids), pieces) == wanted


@pytest.mark.parametrize("name", SENTENCEPIECE)
@settings(max_examples=300, deadline=None)
@given(text=st.text(st.sampled_from("ab q日é🙂\n\tß"), max_size=30))
def test_sentencepiece_text_survives_with_its_first_space(name, text):
    tokenizer = SENTENCEPIECE[name]
    ids = tokenizer(text, add_special_tokens=False).input_ids
    found = b"".join(SENTENCEPIECE_MAPS[name].pieces(ids)).decode("utf-8")
    # "first" puts a space in front of a text that has none; decode takes it away, the bytes keep it.
    assert found == (text if text.startswith(" ") or not text else " " + text)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=40))
def test_byte_level_text_round_trip(text):
    text = text.encode("utf-8", errors="replace").decode("utf-8")
    ids = BYTE_LEVEL(text, add_special_tokens=False).input_ids
    special = {"<|endoftext|>", "<|im_end|>"}
    if not any(word in text for word in special) and "é!" not in text:
        assert b"".join(BYTE_LEVEL_MAP.pieces(ids)).decode("utf-8") == text


def test_special_tokens_and_padded_embedding_rows_have_no_bytes():
    eos, added = BYTE_LEVEL.eos_token_id, BYTE_LEVEL.convert_tokens_to_ids("<tool_call>")
    assert BYTE_LEVEL_MAP.special(eos)
    assert not BYTE_LEVEL_MAP.special(added)
    assert BYTE_LEVEL_MAP.pieces([eos, added, 10**6]) == (b"", b"<tool_call>", b"")
    assert BYTE_LEVEL_MAP.pieces([]) == ()


@pytest.mark.parametrize("make", [byte_level, unigram, llama_like])
def test_tags_of_reasoning_are_text_although_they_are_special(make):
    tokenizer = make()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<think>", "</think>", "<|tool|>"]})
    found = TokenBytes(tokenizer)
    ids = tokenizer.convert_tokens_to_ids(["<think>", "</think>", "<|tool|>", tokenizer.eos_token])
    assert found.pieces(ids) == (b"<think>", b"</think>", b"", b"")
    assert [found.special(i) for i in ids] == [False, False, True, True]


def test_negative_id_is_refused():
    with pytest.raises(ValueError, match="-1 is negative"):
        BYTE_LEVEL_MAP.pieces([3, -1])


def test_tokenizer_without_fast_backend_is_refused():
    with pytest.raises(InputError, match="no fast backend"):
        TokenBytes(SimpleNamespace())


@pytest.mark.parametrize(
    "decoder", [None, decoders.WordPiece(), decoders.BPEDecoder(), decoders.Sequence([decoders.CTC()])]
)
def test_unknown_decoder_is_refused(decoder):
    backend = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    if decoder is not None:
        backend.decoder = decoder
    with pytest.raises(InputError, match="neither byte-level nor SentencePiece"):
        TokenBytes(PreTrainedTokenizerFast(tokenizer_object=backend))


def test_disagreement_with_decode_is_an_error():
    # A second Replace that acts on spaces across tokens: the table can't know, the self-check must notice.
    spec = json.loads(llama_like().backend_tokenizer.to_str())
    spec["decoder"]["decoders"].insert(3, {"type": "Replace", "pattern": {"String": "re"}, "content": "RE"})
    broken = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(spec)))
    with pytest.raises(InputError, match="disagree with what it decodes"):
        TokenBytes(broken)


PIECES = st.lists(
    st.one_of(st.binary(max_size=5), st.text(st.sampled_from("ab \n\t\r{"), max_size=6).map(str.encode), st.just(b"")),
    max_size=40,
)


@settings(max_examples=500, deadline=None)
@given(PIECES)
def test_lines_are_those_of_the_first_visible_byte(pieces):
    lines = line_of_token(pieces)
    data = b"".join(pieces)
    start = 0
    for piece, line in zip(pieces, lines, strict=True):
        if not piece:
            assert line == -1
        else:
            visible = [n for n, byte in enumerate(piece) if bytes([byte]).strip()]
            assert line == data[: start + (visible[0] if visible else 0)].count(b"\n")
        start += len(piece)


@settings(max_examples=300, deadline=None)
@given(PIECES)
def test_lines_never_decrease_and_fit_the_text(pieces):
    lines = [line for line in line_of_token(pieces) if line >= 0]
    assert lines == sorted(lines)
    assert all(line <= b"".join(pieces).count(b"\n") for line in lines)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([], []),
        ([b"\n"], [0]),
        ([b"\n", b"\n", b"a"], [0, 1, 2]),
        ([b"x;\n  ", b"y"], [0, 1]),
        ([b"x;\n  y"], [0]),  # one token over two lines belongs to the first visible byte
        ([b"\n\n", b"\t", b"}\n"], [0, 2, 2]),
        ([b"a\r\n", b"b"], [0, 1]),
        ([b"\xe6\x97", b"\xa5\n", b"", b"c"], [0, 0, -1, 1]),
    ],
)
def test_lines_by_hand(pieces, expected):
    assert line_of_token(pieces) == expected
