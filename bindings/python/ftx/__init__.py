# SPDX-License-Identifier: Apache-2.0
"""Transfers of files and trees by libftx, whose header <ftx.h> says what jobs, options and events mean.

A job runs in a thread of its own while run() waits, so that Ctrl-C ends it; what it tells it tells in that thread."""
import ctypes
import dataclasses
import enum
import json
import os
import threading

__all__ = ["Error", "Event", "EventKind", "Job", "JobKind", "transfer", "version"]


class JobKind(enum.IntEnum):
    TRANSFER = 0
    SERVE = 1


class EventKind(enum.IntEnum):
    UNKNOWN = 0  # of a later library
    LISTENING = 1
    OFFER = 2
    FILE = 3
    CHANGE = 4
    PROGRESS = 5
    FALLBACK = 6
    LEFT_OUT = 7
    REPAIR = 8
    ERROR = 9
    REJECTED = 10
    DONE = 11
    WARNING = 12

    @classmethod
    def _missing_(cls, value):
        return cls.UNKNOWN


class Error(Exception):
    """A job has failed. `code` is an exit code of ftx(1), `text` says why and what to do."""

    def __init__(self, code, text):
        super().__init__(f"{text} (exit code {code})")
        self.code = code
        self.text = text


class _Event(ctypes.Structure):  # struct ftx_event
    _fields_ = [("kind", ctypes.c_int), ("code", ctypes.c_int),
                *((name, ctypes.c_uint64) for name in ("files", "files_done", "bytes", "total_bytes", "skipped_files",
                                                       "skipped_bytes", "datagrams")),
                ("seconds", ctypes.c_double), ("path", ctypes.c_char_p), ("text", ctypes.c_char_p)]


@dataclasses.dataclass(frozen=True)
class Event:
    """What happens in a job. Members that a kind does not have are 0 or empty; `details` is the object that
    `ftx --json` prints."""
    kind: EventKind
    code: int
    files: int
    files_done: int
    bytes: int
    total_bytes: int
    skipped_files: int
    skipped_bytes: int
    datagrams: int
    seconds: float
    path: str
    text: str
    details: dict


_Handler = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(_Event))


def _load():
    library = ctypes.CDLL(os.environ.get("FTX_LIBRARY", "libftx.so.0"))
    for name, result, *arguments in (("ftx_job_new", ctypes.c_void_p, ctypes.c_int),
                                     ("ftx_job_free", None, ctypes.c_void_p),
                                     ("ftx_job_set", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p),
                                     ("ftx_job_add", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p),
                                     ("ftx_job_on_event", None, ctypes.c_void_p, _Handler, ctypes.c_void_p),
                                     ("ftx_job_watch_files", None, ctypes.c_void_p),
                                     ("ftx_job_run", ctypes.c_int, ctypes.c_void_p),
                                     ("ftx_job_stop", None, ctypes.c_void_p),
                                     ("ftx_job_error", ctypes.c_char_p, ctypes.c_void_p),
                                     ("ftx_event_json", ctypes.c_char_p, ctypes.POINTER(_Event)),
                                     ("ftx_version", ctypes.c_char_p)):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


_library = _load()


def version():
    """Of the library."""
    return _library.ftx_version().decode()


def _encoded(text):
    """A str, bytes or path, as the file system has it."""
    encoded = os.fsencode(text)
    if b"\0" in encoded:
        raise ValueError(f"{text!r} has a NUL in it")
    return encoded


class Job:
    """One transfer, or one server. It is told what to do, and run once."""

    def __init__(self, kind=JobKind.TRANSFER):
        self._job = _library.ftx_job_new(JobKind(kind))
        if not self._job:
            raise MemoryError("no memory or no descriptor is left for a job")
        self._handler = None
        self._thrown = None

    def __del__(self):
        if getattr(self, "_job", None):
            _library.ftx_job_free(self._job)

    def set(self, name, value=True):
        """An option of ftx(1) without its dashes. True and False of one that takes no value."""
        text = {True: b"true", False: b"false"}[value] if isinstance(value, bool) else \
            str(value).encode() if isinstance(value, (int, float)) else _encoded(value)
        if _library.ftx_job_set(self._job, _encoded(name), text) != 0:
            raise ValueError(self._error())
        return self

    def add(self, *operands):
        """Sources, then the destination."""
        for operand in operands:
            if _library.ftx_job_add(self._job, _encoded(operand)) != 0:
                raise MemoryError(self._error())
        return self

    def on_event(self, handler):
        """`handler` gets each Event. What it raises ends the job, and comes out of run()."""
        self._handler = handler
        return self

    def watch_files(self):
        """There are events of kind FILE."""
        _library.ftx_job_watch_files(self._job)
        return self

    def run(self):
        """Returns when all is done; raises Error otherwise."""
        handle = _Handler(self._handle)
        _library.ftx_job_on_event(self._job, handle if self._handler else _Handler(), None)
        codes = []
        thread = threading.Thread(target=lambda: codes.append(_library.ftx_job_run(self._job)), name="ftx")
        thread.start()
        try:
            thread.join()
        finally:  # also where Ctrl-C has ended the wait
            if thread.is_alive():
                self.stop()
                thread.join()
        if self._thrown:
            raise self._thrown
        if codes[0] != 0:
            raise Error(codes[0], self._error())

    def stop(self):
        """Ends the job soon. From any thread."""
        _library.ftx_job_stop(self._job)

    def _error(self):
        return os.fsdecode(_library.ftx_job_error(self._job))

    def _handle(self, _user, pointer):
        if self._thrown:
            return
        told = pointer.contents
        text = _library.ftx_event_json(pointer)
        try:
            values = {name: getattr(told, name) for name, _ in _Event._fields_}
            values.update(kind=EventKind(told.kind), path=os.fsdecode(told.path), text=os.fsdecode(told.text))
            self._handler(Event(**values, details=json.loads(text) if text else {}))
        except BaseException as thrown:  # nothing gets through the library; run() raises it
            self._thrown = thrown
            self.stop()


def transfer(sources, destination, *, on_event=None, **options):
    """Sends or fetches `sources` (one path, or several) to `destination`; `options` are those of ftx(1) with "_" for "-";
    one that may be said several times takes a list."""
    job = Job()
    for name, value in options.items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            job.set(name.replace("_", "-"), one)
    paths = [sources] if isinstance(sources, (str, bytes, os.PathLike)) else list(sources)
    job.add(*paths, destination)
    if on_event:
        job.on_event(on_event)
    job.run()
