"""libheddle.so by ctypes: its structs and functions as include/heddle.h declares them."""
import ctypes
import os
from ctypes import POINTER, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path

SONAME = "libheddle.so.1"
STATUS_INVALID, STATUS_NOT_FOUND = 1, 2

LogFunction = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)


class ErrorStruct(ctypes.Structure):
    _fields_ = [("message", c_char * 2048)]


class ModelOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("device", c_char_p),
        ("kv", c_char_p),
        ("draft", c_char_p),
        ("gpu_memory", c_uint64),
        ("threads", c_uint32),
        ("context", c_uint32),
        ("cache_tokens", c_uint32),
        ("draft_tokens", c_uint32),
        ("gpu_layers", c_int32),
        ("cpu_experts", c_int32),
        ("exact", c_int32),
        ("deterministic", c_int32),
        ("no_selftest", c_int32),
        ("reserved", c_int32),
        ("log", LogFunction),
        ("log_data", c_void_p),
    ]


class ModelInfo(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("architecture", c_char_p),
        ("type", c_char_p),
        ("backend", c_char_p),
        ("parameters", c_uint64),
        ("context", c_uint32),
        ("vocabulary", c_uint32),
        ("embedding_width", c_uint32),
        ("can_generate", c_int32),
        ("can_chat", c_int32),
        ("can_embed", c_int32),
        ("can_rank", c_int32),
    ]


class Request(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("prompt", c_char_p),
        ("messages", c_char_p),
        ("tokens", POINTER(c_uint32)),
        ("token_count", c_size_t),
        ("variables", c_char_p),
        ("stop", POINTER(c_char_p)),
        ("stop_count", c_size_t),
        ("json_schema", c_char_p),
        ("grammar", c_char_p),
        ("regex", c_char_p),
        ("seed", POINTER(c_uint64)),
        ("max_tokens", c_uint32),
        ("parse_special", c_int32),
        ("temperature", c_float),
        ("top_k", c_int32),
        ("top_p", c_float),
        ("min_p", c_float),
        ("repetition_penalty", c_float),
        ("repetition_last_n", c_int32),
        ("presence_penalty", c_float),
        ("frequency_penalty", c_float),
    ]


class Piece(ctypes.Structure):
    _fields_ = [("text", c_void_p), ("length", c_size_t), ("tokens", POINTER(c_uint32)), ("token_count", c_size_t)]


class ResultStruct(ctypes.Structure):
    _fields_ = [
        ("text", c_void_p),
        ("length", c_size_t),
        ("tokens", POINTER(c_uint32)),
        ("token_count", c_size_t),
        ("stop", c_char_p),
        ("seed", c_uint64),
        ("prompt_seconds", c_double),
        ("generating_seconds", c_double),
        ("finish", c_int),
        ("prompt_tokens", c_uint32),
        ("cached_tokens", c_uint32),
    ]


_error = POINTER(ErrorStruct)
_signatures = {
    "heddle_version": (c_char_p, []),
    "heddle_free": (None, [c_void_p]),
    "heddle_model_options_init": (None, [POINTER(ModelOptions), c_size_t]),
    "heddle_model_open": (c_int, [c_char_p, POINTER(ModelOptions), POINTER(c_void_p), _error]),
    "heddle_model_close": (None, [c_void_p]),
    "heddle_model_get_info": (POINTER(ModelInfo), [c_void_p]),
    "heddle_tokenize": (c_int, [c_void_p, c_char_p, c_int32, POINTER(POINTER(c_uint32)), POINTER(c_size_t), _error]),
    "heddle_detokenize": (
        c_int,
        [c_void_p, POINTER(c_uint32), c_size_t, c_int32, POINTER(c_void_p), POINTER(c_size_t), _error],
    ),
    "heddle_render_chat": (c_int, [c_void_p, c_char_p, c_char_p, POINTER(c_void_p), _error]),
    "heddle_request_init": (None, [POINTER(Request), c_size_t]),
    "heddle_generation_start": (c_int, [c_void_p, POINTER(Request), POINTER(c_void_p), _error]),
    "heddle_generation_next": (c_int, [c_void_p, POINTER(POINTER(Piece)), _error]),
    "heddle_generation_cancel": (None, [c_void_p]),
    "heddle_generation_get_result": (POINTER(ResultStruct), [c_void_p]),
    "heddle_generation_free": (None, [c_void_p]),
    "heddle_embed": (c_int, [c_void_p, POINTER(c_char_p), c_size_t, POINTER(POINTER(c_float)), _error]),
    "heddle_rank": (
        c_int,
        [c_void_p, c_char_p, POINTER(c_char_p), c_size_t, c_int32, POINTER(POINTER(c_float)), _error],
    ),
}


def _load() -> ctypes.CDLL:
    """By HEDDLE_LIBRARY, beside this package, or where the system looks."""
    named = os.environ.get("HEDDLE_LIBRARY")
    beside = Path(__file__).parent / SONAME
    path = named or (str(beside) if beside.exists() else SONAME)
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"{path}: expected the library of heddle, which HEDDLE_LIBRARY may name: {error}") from None
    for name, (result, arguments) in _signatures.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


library = _load()
