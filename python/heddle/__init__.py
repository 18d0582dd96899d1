"""heddle: run language models on this machine.

    import heddle

    with heddle.Model("weft") as model:
        for piece in model.generate("Once upon a time", max_tokens=50):
            print(piece, end="", flush=True)

Everything here may be called from any thread; what several threads ask of one model is computed together.
"""
import ctypes
import json
import threading
from ctypes import byref, c_char_p, c_float, c_size_t, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Union

from ._library import (
    STATUS_INVALID,
    STATUS_NOT_FOUND,
    ErrorStruct,
    LogFunction,
    ModelOptions,
    Piece,
    Request,
    library,
)

__all__ = ["ALL_LAYERS", "Error", "Generation", "InvalidRequest", "Model", "ModelInfo", "ModelNotFound", "Result", "version"]

ALL_LAYERS = 2**31 - 1


class Error(Exception):
    """What heddle could not do: the message says what was expected and what was found."""


class ModelNotFound(Error):
    """There is no such model on this machine."""


class InvalidRequest(Error, ValueError):
    """An argument, an option or a request that cannot be done."""


def version() -> str:
    """The version of the library."""
    return library.heddle_version().decode()


def _call(function: Callable[..., int], *arguments: Any) -> None:
    error = ErrorStruct()
    status = function(*arguments, byref(error))
    if status == 0:
        return
    message = error.message.decode(errors="replace")
    kinds = {STATUS_INVALID: InvalidRequest, STATUS_NOT_FOUND: ModelNotFound}
    raise kinds.get(status, Error)(message)


def _text(value: Optional[str], name: str) -> Optional[bytes]:
    """For C, where a text ends at its first 0."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a str, found {type(value).__name__}")
    if "\0" in value:
        raise InvalidRequest(f"{name}: expected a text without NUL, found one at {value.index(chr(0))}")
    return value.encode()


def _texts(values: Sequence[str], name: str) -> "ctypes.Array[c_char_p]":
    if isinstance(values, str):
        raise TypeError(f"{name}: expected a list of str, found a str")
    return (c_char_p * len(values))(*[_text(value, f"{name}[{i}]") for i, value in enumerate(values)])


def _json(value: Any) -> Optional[str]:
    return value if value is None or isinstance(value, str) else json.dumps(value)


@dataclass(frozen=True)
class ModelInfo:
    """Facts about a model."""

    name: str
    architecture: str
    type: str
    backend: str
    parameters: int
    context: int
    vocabulary: int
    embedding_width: int
    can_generate: bool
    can_chat: bool
    can_embed: bool
    can_rank: bool


@dataclass(frozen=True)
class Result:
    """What was generated. `finish`: "stop", "length", "context" or "cancelled"."""

    text: str
    tokens: List[int]
    finish: str
    stop: Optional[str]
    seed: int
    prompt_tokens: int
    cached_tokens: int
    prompt_seconds: float
    generating_seconds: float


class Generation:
    """A text that is being generated: iterate over it for its pieces, or wait for result()."""

    _finishes = {1: "stop", 2: "length", 3: "context", 4: "cancelled"}

    def __init__(self, handle: c_void_p) -> None:
        self._handle = handle
        self._lock = threading.Lock()
        self._result: Optional[Result] = None

    def __iter__(self) -> Iterator[str]:
        while True:
            piece = self._next()
            if piece is None:
                return
            if piece:
                yield piece

    def _next(self) -> Optional[str]:
        with self._lock:
            if self._result is not None:
                return None
            if not self._handle:
                raise Error("the generation was closed")
            piece = ctypes.POINTER(Piece)()
            _call(library.heddle_generation_next, self._handle, byref(piece))
            if piece:
                return ctypes.string_at(piece.contents.text, piece.contents.length).decode()
            found = library.heddle_generation_get_result(self._handle).contents
            self._result = Result(
                text=ctypes.string_at(found.text, found.length).decode(),
                tokens=found.tokens[: found.token_count],
                finish=self._finishes[found.finish],
                stop=found.stop.decode() if found.stop is not None else None,
                seed=found.seed,
                prompt_tokens=found.prompt_tokens,
                cached_tokens=found.cached_tokens,
                prompt_seconds=found.prompt_seconds,
                generating_seconds=found.generating_seconds,
            )
            return None

    def result(self) -> Result:
        """Waits for the end."""
        for _ in self:
            pass
        assert self._result is not None
        return self._result

    @property
    def text(self) -> str:
        """All of the text: waits for the end."""
        return self.result().text

    def cancel(self) -> None:
        """Ends the text early. From any thread."""
        if self._handle:
            library.heddle_generation_cancel(self._handle)

    def close(self) -> None:
        """Releases it; one that has not ended is cancelled first."""
        self.cancel()
        with self._lock:
            handle, self._handle = self._handle, c_void_p()
        library.heddle_generation_free(handle)

    def __enter__(self) -> "Generation":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            library.heddle_generation_free(self._handle)


class Model:
    """A model: a GGUF file, a folder of safetensors, a name that `heddle models` lists, or "weft".

    Options are those of `heddle run --help`. `log` is called with each line that heddle has to say about opening the
    model: the device, a context that had to be cut, warnings.
    """

    def __init__(
        self,
        name: str,
        *,
        device: str = "auto",
        threads: int = 0,
        context: int = 0,
        cache_tokens: int = 0,
        kv: str = "f16",
        gpu_layers: Optional[int] = None,
        cpu_experts: Optional[int] = None,
        gpu_memory: int = 0,
        draft: Optional[str] = None,
        draft_tokens: Optional[int] = None,
        exact: bool = False,
        deterministic: bool = False,
        no_selftest: bool = False,
        log: Optional[Callable[[str], None]] = None,
    ) -> None:
        options = ModelOptions()
        library.heddle_model_options_init(byref(options), ctypes.sizeof(options))
        options.device = _text(device, "device")
        options.kv = _text(kv, "kv")
        options.draft = _text(draft, "draft")
        options.threads = _number(threads, "threads", 32)
        options.context = _number(context, "context", 32)
        options.cache_tokens = _number(cache_tokens, "cache_tokens", 32)
        options.gpu_memory = _number(gpu_memory, "gpu_memory", 64)
        if draft_tokens is not None:
            options.draft_tokens = _number(draft_tokens, "draft_tokens", 32)
        if gpu_layers is not None:
            options.gpu_layers = _number(gpu_layers, "gpu_layers", 31)
        if cpu_experts is not None:
            options.cpu_experts = _number(cpu_experts, "cpu_experts", 31)
        options.exact, options.deterministic, options.no_selftest = exact, deterministic, no_selftest
        lines: List[str] = []
        if log is not None:
            options.log = LogFunction(lambda _, line: lines.append(line.decode(errors="replace")))
        self._handle = c_void_p()
        try:
            _call(library.heddle_model_open, _text(name, "name"), byref(options), byref(self._handle))
        finally:
            for line in lines:
                log(line)  # type: ignore[misc]
        found = library.heddle_model_get_info(self._handle).contents
        fields: Dict[str, Any] = {}
        for field, _ in found._fields_:
            value = getattr(found, field)
            fields[field] = value.decode() if isinstance(value, bytes) else bool(value) if field[:4] == "can_" else value
        self.info = ModelInfo(**fields)

    def close(self) -> None:
        """Ends what it computes and releases it. No other call on the model may begin at the same time or after."""
        handle, self._handle = self._handle, c_void_p()
        library.heddle_model_close(handle)

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()

    def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = True) -> List[int]:
        """The tokens of a text, with BOS and EOS as the model wants them if `add_special`."""
        tokens, count = ctypes.POINTER(c_uint32)(), c_size_t()
        flags = add_special * 1 + parse_special * 2
        _call(library.heddle_tokenize, self._open(), _text(text, "text"), flags, byref(tokens), byref(count))
        try:
            return tokens[: count.value]
        finally:
            library.heddle_free(tokens)

    def detokenize(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """The text of tokens, with U+FFFD for bytes that are no characters."""
        text, length = c_void_p(), c_size_t()
        ids = _tokens(tokens)
        _call(library.heddle_detokenize, self._open(), ids, len(ids), special, byref(text), byref(length))
        try:
            return ctypes.string_at(text, length.value).decode(errors="replace")
        finally:
            library.heddle_free(text)

    def render_chat(
        self, messages: Sequence[Mapping[str, Any]], *, variables: Optional[Mapping[str, Any]] = None
    ) -> str:
        """The prompt that the model's chat template makes of a conversation."""
        text = c_void_p()
        given = [_text(_json(list(messages)), "messages"), _text(_json(variables), "variables")]
        _call(library.heddle_render_chat, self._open(), *given, byref(text))
        try:
            return ctypes.string_at(text).decode()
        finally:
            library.heddle_free(text)

    def generate(self, prompt: Union[str, Sequence[int]], **options: Any) -> Generation:
        """Continues a text, or tokens.

        Options: max_tokens, temperature, top_k, top_p, min_p, seed, stop (a str or several), repetition_penalty,
        repetition_last_n, presence_penalty, frequency_penalty; and for what the text must be, one of json_schema (a dict,
        or JSON), grammar and regex. The defaults are those of `heddle run`.
        """
        if isinstance(prompt, str):
            return self._start({"prompt": _text(prompt, "prompt")}, **options)
        tokens = _tokens(prompt)
        return self._start({"tokens": tokens, "token_count": len(tokens)}, **options)

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        variables: Optional[Mapping[str, Any]] = None,
        parse_special: bool = False,
        **options: Any,
    ) -> Generation:
        """Answers a conversation, such as [{"role": "user", "content": "Hello"}]; options as for generate().

        `variables` are for the model's chat template. The texts of messages cannot write control tokens, unless
        `parse_special`.
        """
        given = {
            "messages": _text(_json(list(messages)), "messages"),
            "variables": _text(_json(variables), "variables"),
            "parse_special": parse_special,
        }
        return self._start(given, **options)

    def _start(
        self,
        given: Dict[str, Any],
        *,
        max_tokens: Optional[int] = None,
        temperature: Optional[float] = None,
        top_k: Optional[int] = None,
        top_p: Optional[float] = None,
        min_p: Optional[float] = None,
        seed: Optional[int] = None,
        stop: Union[str, Sequence[str]] = (),
        json_schema: Union[None, str, Mapping[str, Any]] = None,
        grammar: Optional[str] = None,
        regex: Optional[str] = None,
        repetition_penalty: Optional[float] = None,
        repetition_last_n: Optional[int] = None,
        presence_penalty: Optional[float] = None,
        frequency_penalty: Optional[float] = None,
    ) -> Generation:
        request = Request()
        library.heddle_request_init(byref(request), ctypes.sizeof(request))
        for name, value in given.items():
            setattr(request, name, value)
        numbers = {
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "min_p": min_p,
            "repetition_penalty": repetition_penalty,
            "repetition_last_n": repetition_last_n,
            "presence_penalty": presence_penalty,
            "frequency_penalty": frequency_penalty,
        }
        for name, number in numbers.items():
            if number is not None:
                setattr(request, name, number if isinstance(number, float) else _number(number, name, 31, least=-1))
        if max_tokens is not None:
            request.max_tokens = _number(max_tokens, "max_tokens", 32)
        if seed is not None:
            request.seed = ctypes.pointer(c_uint64(_number(seed, "seed", 64)))
        stops = _texts([stop] if isinstance(stop, str) else stop, "stop")
        request.stop, request.stop_count = stops, len(stops)
        request.json_schema = _text(_json(json_schema), "json_schema")
        request.grammar = _text(grammar, "grammar")
        request.regex = _text(regex, "regex")
        handle = c_void_p()
        _call(library.heddle_generation_start, self._open(), byref(request), byref(handle))
        return Generation(handle)

    def embed(self, texts: Sequence[str]) -> List[List[float]]:
        """The embedding of each text, of length 1."""
        values = ctypes.POINTER(c_float)()
        given, width = _texts(texts, "texts"), self.info.embedding_width
        _call(library.heddle_embed, self._open(), given, len(given), byref(values))
        try:
            return [values[i * width : (i + 1) * width] for i in range(len(given))]
        finally:
            library.heddle_free(values)

    def rank(self, query: str, documents: Sequence[str], *, truncate: bool = False) -> List[float]:
        """How well each document matches the query, from 0 to 1. `truncate`: documents that are too long are cut."""
        scores = ctypes.POINTER(c_float)()
        given = _texts(documents, "documents")
        _call(library.heddle_rank, self._open(), _text(query, "query"), given, len(given), truncate, byref(scores))
        try:
            return scores[: len(given)]
        finally:
            library.heddle_free(scores)

    def _open(self) -> c_void_p:
        if not self._handle:
            raise Error("the model was closed")
        return self._handle


def _number(value: int, name: str, bits: int, least: int = 0) -> int:
    """ctypes would cut what does not fit."""
    if not least <= value < 2**bits:
        raise InvalidRequest(f"{name}: expected {least} to {2**bits - 1}, found {value}")
    return value


def _tokens(tokens: Sequence[int]) -> "ctypes.Array[c_uint32]":
    return (c_uint32 * len(tokens))(*[_number(token, "tokens", 32) for token in tokens])
