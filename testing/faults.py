"""Disks and memories that fail at a point that is asked for."""

import contextlib
import ctypes
import errno
import os
from pathlib import Path

import numpy as np
import pytest

DISK_FAULTS = [
    OSError(errno.ENOSPC, "No space left on device"),
    OSError(errno.EIO, "Input/output error"),
    MemoryError(),
]


class Points:
    """What is asked of the disk, counted; one of the questions fails."""

    def __init__(self, place, fault):
        self.count, self._place, self._fault = 0, place, fault

    def point(self):
        self.count += 1
        if self.count - 1 == self._place:
            raise self._fault.with_traceback(None)  # that of earlier raises, which pyarrow would print each time


@contextlib.contextmanager
def faulty_disk(place=None, fault=None):
    """Within it the one door of writing fails at one point (None: at none); gives the `Points`."""
    points, opened, fsync, replace = Points(place, fault), Path.open, os.fsync, Path.replace

    def open_(path, mode="r", *more, **named):
        if mode != "xb":
            return opened(path, mode, *more, **named)
        points.point()
        stream = opened(path, mode, *more, **named)

        class Stream:
            def __getattr__(self, name):
                return getattr(stream, name)

            def write(self, data):
                points.point()
                return stream.write(data)

        return Stream()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", open_)
        patch.setattr(os, "fsync", lambda number: (points.point(), fsync(number))[1])
        patch.setattr(Path, "replace", lambda path, target: (points.point(), replace(path, target))[1])
        yield points


class _Handler(ctypes.Structure):
    """`PyDataMem_Handler` of numpy's C interface."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        *((name, ctypes.c_void_p) for name in ("context", "malloc", "calloc", "realloc", "free")),
    )


_SIZE, _PLACE = ctypes.c_size_t, ctypes.c_void_p
_ALLOCATORS = {"malloc": (_SIZE,), "calloc": (_SIZE, _SIZE), "realloc": (_PLACE, _SIZE)}
_SET_HANDLER = 304
"""Place of `PyDataMem_SetHandler` in numpy's table of functions, the same in every version since 1.22."""


class FaultyMemory:
    """numpy's allocator with one allocation that fails: the n-th within `failing(n)`; `count` says how many there were.

    numpy keeps the allocator of an array as long as the array, so this object lives as long as the process.
    """

    def __init__(self):
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = _PLACE, (ctypes.py_object, ctypes.c_char_p)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (_PLACE, ctypes.c_char_p, _PLACE)
        table = ctypes.cast(pointer(np._core._multiarray_umath._ARRAY_API, None), ctypes.POINTER(_PLACE))
        self._set = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[_SET_HANDLER])
        self._get = ctypes.PYFUNCTYPE(ctypes.py_object)(table[_SET_HANDLER + 1])
        usual = ctypes.cast(pointer(self._get(), b"mem_handler"), ctypes.POINTER(_Handler)).contents
        self._handler = _Handler(b"faulty", 1, usual.context, None, None, None, usual.free)
        # numpy calls, and is called, with the interpreter lock held: `CFUNCTYPE` would give it away.
        self._callbacks = [
            self._failing(name, ctypes.PYFUNCTYPE(_PLACE, _PLACE, *sizes), getattr(usual, name))
            for name, sizes in _ALLOCATORS.items()
        ]
        self._capsule = new(ctypes.addressof(self._handler), b"mem_handler", None)
        self.count, self._place = 0, None

    def _failing(self, name, kind, address):
        usual = kind(address)

        def allocate(*arguments):
            self.count += 1
            return None if self.count - 1 == self._place else usual(*arguments)

        callback = kind(allocate)
        setattr(self._handler, name, ctypes.cast(callback, _PLACE).value)
        return callback

    @contextlib.contextmanager
    def failing(self, place=None):
        """Within it the allocation of this number fails (None: none)."""
        self.count, self._place = 0, place
        before = self._set(self._capsule)
        try:
            yield self
        finally:
            self._set(before)
