"""The one way kernels are compiled: cached, numpy's rules for division, no fast-math (results must not vary).

They do not hold Python's lock, so windows can be run on several threads.
"""

import contextlib
import fcntl
import hashlib
import inspect
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba
from numba import njit
from numba.core import sigutils
from numba.core.caching import IndexDataCacheFile
from numba.core.compiler_lock import global_compiler_lock
from numba.core.types import unliteral

P = ParamSpec("P")
R = TypeVar("R")

_COMPILED: dict[str, Any] = {"cache": True, "error_model": "numpy", "nogil": True, "no_cfunc_wrapper": True}
_UNCOUNTED: dict[str, Any] = {"_nrt": False}  # no reference counting: a kernel that makes no array needs none
_COUNTED: dict[str, Any] = {"_nrt": True}


def _source() -> str:
    """Return a hash of all kernels' source."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


SOURCE_HASH = _source()


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function over arrays that it does not make; with NUMBA_DISABLE_JIT=1 it stays plain Python."""
    return _compiled(function, _UNCOUNTED)


def allocating_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that makes arrays of its own."""
    return _compiled(function, _COUNTED)


def _compiled(function: Callable[P, R], flags: dict[str, Any]) -> Callable[P, R]:
    compiled: Any = njit(**_COMPILED, **flags)(function)
    if hasattr(compiled, "_cache"):  # plain Python has none
        _keep_apart(compiled._cache)  # noqa: SLF001  numba has no public way; tested with the release that is pinned
        _compile_once_for_constants(compiled)
        _compile_in_one_process(compiled)
    result: Callable[P, R] = compiled
    return result


def _compile_once_for_constants(compiled: Any) -> None:
    """Compile one version of a kernel, not one more for every constant that another kernel calls it with.

    A third of the time that the core takes to compile went into such versions. LLVM puts constants in where it pays.
    """
    resolve = compiled.get_call_template

    def for_any_value(args: Any, kws: Any) -> Any:
        return resolve(tuple(map(unliteral, args)), {name: unliteral(kind) for name, kind in kws.items()})

    compiled.get_call_template = for_any_value


def _compile_in_one_process(compiled: Any) -> None:
    """Let processes that want the same machine code at the same time wait for the first, and take over what it made."""
    compile_or_load = compiled.compile

    def by_one(signature: Any) -> Any:
        if _is_kept(compiled, signature):
            return compile_or_load(signature)
        with _only_one():
            return compile_or_load(signature)

    compiled.compile = by_one


def _is_kept(compiled: Any, signature: Any) -> bool:
    """Return whether there is machine code for these types, in memory or in a file."""
    types, _ = sigutils.normalize_signature(signature)
    if tuple(types) in compiled.overloads:
        return True
    cache = compiled._cache  # noqa: SLF001
    key = cache._index_key(signature, compiled.targetctx.codegen())  # noqa: SLF001
    return key in cache._cache_file._load_index()  # noqa: SLF001


@contextlib.contextmanager
def _only_one() -> Iterator[None]:
    """Wait until no other process of this user compiles this source; where files cannot be locked, do not wait."""
    with global_compiler_lock:  # kernels compile those that they call: only the outermost takes the file
        _depth[0] += 1
        try:
            with _lock_file() if _depth[0] == 1 else contextlib.nullcontext():
                yield
        finally:
            _depth[0] -= 1


_depth = [0]


@contextlib.contextmanager
def _lock_file() -> Iterator[None]:
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            folder = _shared_folder() or Path(__file__).parent / "__pycache__"
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"rltune-{SOURCE_HASH}.compiling"
            file = held.enter_context(os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _shared_folder() -> Path | None:
    """Return the one folder for every copy of this source, if there is one: a new clone need not compile again."""
    return Path(numba.config.CACHE_DIR) / f"rltune-{SOURCE_HASH}" if numba.config.CACHE_DIR else None


def _keep_apart(cache: Any) -> None:
    """Keep the machine code of this very source in files of its own.

    Numba asks only whether a function's own file has changed, not what it calls. An index that names a class which is
    gone cannot even be read, and two versions that compile at the same time would overwrite each other's code.
    """
    source = Path(inspect.getfile(cache._py_func)).read_bytes()  # noqa: SLF001
    name, folder = f"{cache._impl.filename_base}.{SOURCE_HASH}", cache._cache_path  # noqa: SLF001
    if shared := _shared_folder():
        folder = str(shared)
        name = f"{cache._py_func.__module__}.{cache._impl.filename_base}.{SOURCE_HASH}"  # noqa: SLF001
    cache._cache_path = folder  # noqa: SLF001
    cache._cache_file = _MachineCode(folder, name, hashlib.sha256(source).hexdigest())  # noqa: SLF001


class _MachineCode(IndexDataCacheFile):
    """The machine code of one function: a file for each signature, named by the signature.

    Numba numbers these files. Two processes that compile two signatures at the same time then both write number 1,
    and an index may name the other's code.
    """

    def save(self, key: Any, data: Any) -> None:
        """Keep the code first, then name it in the index: an index never names code that is not there."""
        Path(self._cache_path).mkdir(parents=True, exist_ok=True)
        name = f"{Path(self._index_path).stem}.{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.nbc"
        self._save_data(name, data)
        self._save_index({**self._load_index(), key: name})
