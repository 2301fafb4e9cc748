"""The one decorator for compiled loops, and the place of their cache.

numba does not notice when a *called* function in another file changes, so a cache shared between versions of the
sources could run old code. The cache folder is therefore named by a hash of the sources and lies inside the virtual
environment (mode 0700), unless the user has chosen a folder by `NUMBA_CACHE_DIR`. Where it cannot be written (read-only
machines, full disks) or read (files that a power cut left empty) loops are compiled anew, and a warning says so, for
numba itself would let the fit fail.
"""

import contextlib
import functools
import gc
import hashlib
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, ParamSpec, TypeVar

import numba
import numpy as np
from numba import types
from numba.core import compiler, sigutils, typing
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.registry import CPUDispatcher
from numba.core.targetconfig import ConfigStack
from numba.extending import lower_builtin, overload, type_callable

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")
N = TypeVar("N", float, "np.floating[Any]")


@functools.cache
def source_hash() -> str:
    """Hash of every source file that holds compiled code, that is, imports this module (16 hexadecimal digits)."""
    root = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        text = path.read_bytes()
        if b"_numba" in text:
            digest.update(str(path.relative_to(root)).encode())
            digest.update(text)
    return digest.hexdigest()[:16]


@functools.cache
def cache_folder() -> str | None:
    """Folder for compiled code: inside the virtual environment; None where numba's own choice is kept."""
    if "NUMBA_CACHE_DIR" in os.environ or sys.prefix == sys.base_prefix:
        return None
    folder = Path(sys.prefix) / "var" / "widemargin-numba" / source_hash()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.parent.chmod(0o700)
        folder.chmod(0o700)
    except OSError:  # a read-only environment: numba falls back to the user's cache
        return None
    return str(folder)


def kernel(function: F) -> F:
    """Compile a free function over arrays at its first call; cached on disk, without the interpreter lock.

    The plain Python function stays reachable as `.py_func`, which the tests compare with the compiled one. With
    `NUMBA_DISABLE_JIT=1` nothing is compiled: the function itself is returned, and is its own `.py_func`.
    """
    return _compiled(function)


def summing_kernel(function: F) -> F:
    """The same for loops whose sums may be added up in any order, which makes vector instructions of them.

    The order is one and the same at every call: equal numbers give equal sums. NaN and infinities stay what they are.
    """
    return _compiled(function, fastmath={"reassoc", "contract", "nsz"})


def array_kernel(function: F) -> F:
    """The same for a loop that makes arrays or returns some, and for the loops that take these.

    numba counts the users of arrays there. Other loops only look at what they are given, and do without, which spares
    a seventh of the compiling.
    """
    return _compiled(function, _nrt=True)


def kernel_by_class(argument: str, forms: Mapping[type, Callable[P, R]]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """One name for several kernels: which of them is meant is said by the class of one argument, a named tuple.

    numba gives every class of named tuples a type of its own. So the choice is made while the caller is compiled, and
    it is compiled with the one form it needs: eight forms behind a number to look at took most of a minute.

    Parameters
    ----------
    argument : str
        Name of the argument; all are given by position.
    forms : mapping from class to kernel
        With the parameters of the decorated function, compiled or not, which is the form of all other classes.
    """

    def decorate(rest: Callable[P, R]) -> Callable[P, R]:
        declared, otherwise = inspect.signature(rest), rest if hasattr(rest, "py_func") else kernel(rest)
        place = list(declared.parameters).index(argument)

        @functools.wraps(rest)
        def call(*arguments: P.args, **named: P.kwargs) -> R:
            return forms.get(type(arguments[place]), otherwise)(*arguments, **named)

        def plain(*arguments: Any) -> Any:
            form: Any = forms.get(type(arguments[place]), otherwise)
            return form.py_func(*arguments)

        def form_of(argument_types: tuple[Any, ...]) -> types.Dispatcher:
            return types.Dispatcher(forms.get(argument_types[place].instance_class, otherwise))

        # To numba `call` is a function whose compiled form, and with it its type, is that of the kernel chosen.
        def of_types(context: Any) -> Callable[..., Any]:
            def typed(*argument_types: Any) -> Any:
                return form_of(argument_types).get_call_type(context, argument_types, {})

            typed.pysig = declared  # type: ignore[attr-defined]
            return typed

        def in_code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            form = form_of(signature.args)
            chosen = context.get_function(form, form.get_call_type(context.typing_context, signature.args, {}))
            context.add_linking_libs(chosen.libs)
            return chosen(builder, arguments)

        type_callable(call)(of_types)
        lower_builtin(call, types.VarArg(types.Any))(in_code)
        call.py_func = plain  # type: ignore[attr-defined]
        return call

    return decorate


def kernel_by_precision(
    single: Callable[[np.float32], np.float32], double: Callable[[float], float]
) -> Callable[[np.floating[Any]], np.floating[Any]]:
    """One name for two kernels of one number: which of them is meant is said by the precision of the number."""

    def call(t: Any) -> Any:
        return single(t) if isinstance(t, np.float32) else double(t)

    # Not strict, because numba would compare the types written there and here, which are no types of numba.
    @overload(call, strict=False)  # type: ignore[untyped-decorator]
    def of_type(t: Any) -> Any:
        return (lambda t: single(t)) if t == types.float32 else (lambda t: double(t))

    return call


def larger(a: N, b: N) -> N:
    """The larger of two numbers of one precision, neither of which is NaN.

    A loop that keeps the largest number becomes vector instructions by this form alone, as the compiler must be told in
    the choice itself that NaN does not occur: what numba makes of `max` or `if` stays a loop over single numbers.
    """
    return a if a > b else b


@type_callable(larger)  # type: ignore[untyped-decorator]
def _larger_of_types(context: Any) -> Callable[[Any, Any], Any]:
    return lambda a, b: typing.signature(a, a, b) if a == b and isinstance(a, types.Float) else None


@lower_builtin(larger, types.Float, types.Float)  # type: ignore[untyped-decorator]
def _larger_in_code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    no_nan = ("nnan", "nsz")
    return builder.select(builder.fcmp_ordered(">", *arguments, flags=no_nan), *arguments, flags=no_nan)


def _compiled(function: F, **options: object) -> F:
    if numba.config.DISABLE_JIT:  # to measure which lines of the loops the tests reach
        function.py_func = function  # type: ignore[attr-defined]
        return function
    chosen = cache_folder()
    before = numba.config.CACHE_DIR
    if chosen is not None:
        numba.config.CACHE_DIR = chosen
    # A loop is called by Python or by other loops, never by C: without that entry a tenth of the compiling is saved.
    how = {"nopython": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "boundscheck": None}
    how["_nrt"] = False  # numba's name for the counting of arrays
    compiled = _Loop(function, targetoptions=how | options)
    try:
        compiled._cache = _Cache(function)  # what `njit(cache=True)` does with numba's own
    except RuntimeError:  # no folder that numba thinks of can be written
        _warn_not_kept("no folder can be written")
    finally:
        numba.config.CACHE_DIR = before
    return compiled


def _as_if_writable(argument: Any) -> Any:
    """The type of the same arrays, of which those that must not be written are treated as if they might."""
    if isinstance(argument, types.Array):
        return argument.copy(readonly=False)
    if isinstance(argument, types.BaseTuple) and len(argument):
        of_class = getattr(argument, "instance_class", None)
        return types.BaseTuple.from_types([_as_if_writable(part) for part in argument], of_class)
    return argument


def _has_arrays(answer: Any) -> bool:
    in_tuple = isinstance(answer, types.BaseTuple) and any(map(_has_arrays, answer))
    return in_tuple or isinstance(answer, types.Array)


class _Flags(compiler.Flags):  # type: ignore[misc]
    """How a loop is compiled, compared quickly: numba does so for every function that an operation may mean.

    That took an eighth of the compiling, as each comparison makes a dictionary of all flags and their defaults.
    """

    _hash = hash(compiler.Flags())  # one and the same for all flags

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return type(other) is _Flags and self._values == other._values


class _PartOfALoop(JITCodeLibrary):  # type: ignore[misc]
    """Code that other code takes in: it is not optimised before that, and never becomes machine code of its own."""

    def finalize(self) -> None:
        for library in dict.fromkeys(self._linking_libraries):
            if hasattr(library, "_reload_init"):  # since numba 0.62
                self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True


class _Loop(CPUDispatcher):  # type: ignore[misc]
    """A compiled function that other ones take in as it was written.

    numba optimises what is called, makes machine code of it and an entry for Python, and then does all that once more
    for every caller, which takes the code in. Here only what Python calls goes that way.
    """

    _takes_in: ClassVar[bool] = True

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._compiler._customize_flags = _Flags
        self._parts: dict[Any, Any] = {}

    def compile(self, sig: Any) -> Any:
        """Compile for arguments of these types, while Python's collector of garbage waits.

        Compiling makes millions of objects and hardly a cycle of them: to look through them took a sixth of the time.
        Arrays that must not be written, such as the columns of a data frame or rows that joblib maps into the memory of
        its workers, go to the code for other arrays: no loop writes to what a user handed over.
        """
        collecting, wanted = gc.isenabled(), sigutils.normalize_signature(sig)[0]
        gc.disable()
        try:
            arguments = tuple(map(_as_if_writable, wanted))
            entry = super().compile(arguments)
            if arguments != tuple(wanted):
                self._insert([one._code for one in wanted], entry, False)
            return entry
        finally:
            if collecting:
                gc.enable()

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """How compiled code calls it: a template, with the types of the arguments."""
        declared, folded = self._compiler.fold_argument_types(args, kws)
        folded = tuple(map(types.unliteral, folded))  # numba would compile it for a count that is 0, and for any other
        if folded not in self._parts and _Loop._takes_in:
            try:
                self._parts[folded] = self._part(folded)
            except Exception:  # another numba may have changed inside; and what cannot be compiled, it says best itself
                _Loop._takes_in = False
        if folded in self._parts:
            signatures = [part.signature for part in self._parts.values()]
            template = typing.make_concrete_template(self.py_func.__name__, key=self, signatures=signatures)
            answer: Any = (template, declared, folded, {})
            returned = self._parts[folded].signature.return_type
        else:
            answer = super().get_call_template(args, kws)
            returned = self.overloads[folded].signature.return_type
        # Arrays that one side counts and the other does not would be freed too early, or never.
        caller = ConfigStack.top_or_none()
        if caller is not None and caller.nrt != self.targetoptions["_nrt"] and _has_arrays(returned):
            raise TypeError(f"{self.__name__} returns arrays: it and the loops that call it are for `array_kernel`.")
        return answer

    def _part(self, args: Any) -> Any:
        """The code for arguments of these types, to be taken in."""
        context, flags = self.targetctx, _Flags()
        self.targetdescr.options.parse_as_flags(flags, self.targetoptions)
        flags.no_compile = flags.no_cpython_wrapper = True
        library = _PartOfALoop(context.codegen(), self.py_func.__qualname__)
        part = compiler.compile_extra(self.typingctx, context, self.py_func, args, None, flags, self.locals, library)
        library.finalize()
        context.insert_user_function(part.fndesc, part.fndesc, [part.library])
        return part

    def get_overload(self, sig: Any) -> Any:
        """What the code of a call is found by."""
        part = self._parts.get(tuple(sig))
        return super().get_overload(sig) if part is None else part.fndesc


class _Cache(FunctionCache):  # type: ignore[misc]
    """numba's cache of one function, without which everything works, only later."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # a damaged file makes pickle raise all sorts of things
            with contextlib.suppress(OSError):  # of a disk that fails `save_overload` tells
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _warn_not_kept(str(error.strerror))


@functools.cache
def _warn_not_kept(why: str) -> None:
    """Once in a process, for its loops lie in many folders."""
    text = f"compiled loops are not kept on disk ({why}), so every process compiles them anew. Make room, or name a "
    warnings.warn(f"{text}folder that can be written by NUMBA_CACHE_DIR", RuntimeWarning, stacklevel=2)
