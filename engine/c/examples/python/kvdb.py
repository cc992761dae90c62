"""The engine in a Python program, by ctypes: no package is needed, and nothing is compiled.

The library is the file that KVDB_LIBRARY names, or `libkvdb.so` (`libkvdb.dylib`) where the system looks for libraries. Calls let go of Python's lock while they wait.
"""
import ctypes as c
import os
import sys

_lib = c.CDLL(os.environ.get("KVDB_LIBRARY") or ("libkvdb.dylib" if sys.platform == "darwin" else "libkvdb.so"))

OK, NOT_FOUND = 0, 1
DURABLE, RELAXED = 0, 1


def _declare(name, result, *arguments):
    function = getattr(_lib, name)
    function.restype, function.argtypes = result, arguments
    return function


_place = c.POINTER(c.c_void_p)
_bytes = (c.c_char_p, c.c_size_t)
_declare("kvdb_error_message", c.c_char_p, c.c_void_p)
_declare("kvdb_error_free", None, c.c_void_p)
_declare("kvdb_options_new", c.c_void_p)
_declare("kvdb_options_set", c.c_int, c.c_void_p, c.c_char_p, c.c_char_p, _place)
_declare("kvdb_options_free", None, c.c_void_p)
_declare("kvdb_open", c.c_int, c.c_char_p, c.c_void_p, _place, _place)
_declare("kvdb_close", c.c_int, c.c_void_p, _place)
_declare("kvdb_sync", c.c_int, c.c_void_p, _place)
_declare("kvdb_put", c.c_int, c.c_void_p, *_bytes, *_bytes, c.c_uint32, _place)
_declare("kvdb_delete", c.c_int, c.c_void_p, *_bytes, c.c_uint32, _place)
_declare("kvdb_get", c.c_int, c.c_void_p, *_bytes, _place, _place)
_declare("kvdb_value_bytes", c.c_void_p, c.c_void_p, c.POINTER(c.c_size_t))
_declare("kvdb_value_free", None, c.c_void_p)
_declare("kvdb_batch_new", c.c_void_p)
_declare("kvdb_batch_put", c.c_int, c.c_void_p, *_bytes, *_bytes, _place)
_declare("kvdb_batch_delete", c.c_int, c.c_void_p, *_bytes, _place)
_declare("kvdb_batch_free", None, c.c_void_p)
_declare("kvdb_write", c.c_int, c.c_void_p, c.c_void_p, c.c_uint32, _place)
_declare("kvdb_snapshot_new", c.c_int, c.c_void_p, _place, _place)
_declare("kvdb_snapshot_get", c.c_int, c.c_void_p, *_bytes, _place, _place)
_declare("kvdb_snapshot_free", None, c.c_void_p)
_declare("kvdb_cursor_new", c.c_int, c.c_void_p, c.c_void_p, *_bytes, *_bytes, _place, _place)
_declare("kvdb_cursor_key", c.c_void_p, c.c_void_p, c.POINTER(c.c_size_t))
_declare("kvdb_cursor_value", c.c_void_p, c.c_void_p, c.POINTER(c.c_size_t))
_declare("kvdb_cursor_free", None, c.c_void_p)
for _move in ("first", "last", "next", "previous"):
    _declare(f"kvdb_cursor_{_move}", c.c_int, c.c_void_p, _place)


class Error(Exception):
    """A call has failed. `status` says how, as in kvdb.h."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def _call(function, *arguments):
    error = c.c_void_p()
    status = function(*arguments, c.byref(error))
    if status in (OK, NOT_FOUND):
        return status
    message = _lib.kvdb_error_message(error).decode()
    _lib.kvdb_error_free(error)
    raise Error(status, message)


def _copy(function, handle):
    """The bytes that a handle has, as Python's own."""
    size = c.c_size_t()
    address = function(handle, c.byref(size))
    return c.string_at(address, size.value) if address else None


def _read(function, handle, key):
    value = c.c_void_p()
    if _call(function, handle, key, len(key), c.byref(value)) == NOT_FOUND:
        return None
    try:
        return _copy(_lib.kvdb_value_bytes, value)
    finally:
        _lib.kvdb_value_free(value)


class _Handle:
    """A handle that is freed once: by `with`, by close(), or when nobody refers to it any more."""

    _handle = None

    def close(self):
        handle, self._handle = self._handle, None
        if handle:
            self._free(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        self.close()


class Database(_Handle):
    """An open database. Any number of threads may use it."""

    def __init__(self, path, **options):
        made, place = _lib.kvdb_options_new(), c.c_void_p()
        try:
            for name, value in options.items():
                _call(_lib.kvdb_options_set, made, name.encode(), str(value).encode())
            _call(_lib.kvdb_open, os.fsencode(path), made, c.byref(place))
        finally:
            _lib.kvdb_options_free(made)
        self._handle = place

    def _free(self, handle):
        _call(_lib.kvdb_close, handle)

    def put(self, key, value, durability=DURABLE):
        _call(_lib.kvdb_put, self._handle, key, len(key), value, len(value), durability)

    def delete(self, key, durability=DURABLE):
        _call(_lib.kvdb_delete, self._handle, key, len(key), durability)

    def get(self, key):
        """The value of a key, or None."""
        return _read(_lib.kvdb_get, self._handle, key)

    def write(self, changes, durability=DURABLE):
        """Writes all pairs of a key and a value, or nothing; None for a value is a delete."""
        batch = _lib.kvdb_batch_new()
        try:
            for key, value in changes:
                if value is None:
                    _call(_lib.kvdb_batch_delete, batch, key, len(key))
                else:
                    _call(_lib.kvdb_batch_put, batch, key, len(key), value, len(value))
            _call(_lib.kvdb_write, self._handle, batch, durability)
        finally:
            _lib.kvdb_batch_free(batch)

    def sync(self):
        _call(_lib.kvdb_sync, self._handle)

    def snapshot(self):
        return Snapshot(self)

    def scan(self, start=None, end=None, reverse=False, snapshot=None):
        """Pairs of a key and its value from `start`, included, up to `end`, excluded, as they were when the first was asked for."""
        place = c.c_void_p()
        within = snapshot._handle if snapshot else None
        _call(_lib.kvdb_cursor_new, self._handle, within, start, len(start or b""), end, len(end or b""), c.byref(place))
        try:
            move = _lib.kvdb_cursor_previous if reverse else _lib.kvdb_cursor_next
            found = _call(_lib.kvdb_cursor_last if reverse else _lib.kvdb_cursor_first, place)
            while found == OK:
                yield _copy(_lib.kvdb_cursor_key, place), _copy(_lib.kvdb_cursor_value, place)
                found = _call(move, place)
        finally:
            _lib.kvdb_cursor_free(place)


class Snapshot(_Handle):
    """One moment of a database."""

    def __init__(self, database):
        place = c.c_void_p()
        _call(_lib.kvdb_snapshot_new, database._handle, c.byref(place))
        self._handle = place

    def _free(self, handle):
        _lib.kvdb_snapshot_free(handle)

    def get(self, key):
        return _read(_lib.kvdb_snapshot_get, self._handle, key)
