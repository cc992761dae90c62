"""A native engine behind its adapter: messages on its standard input, answers on its standard output (book/src/files-host.md)."""

import select
import struct
import subprocess
import tempfile
import time

# How long an answer may take before the engine counts as hung. Seconds.
PATIENCE = 60
GET, SCAN = 4, 5


class Ended(Exception):
    """The engine ended or hangs: its exit code and the end of what it wrote to standard error."""


class Native:
    """A process run of an engine, whose database is in a directory."""

    def __init__(self, program, directory):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([str(program), str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, bufsize=0)
        self.number = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()

    def open(self, options):
        """Opens the database; the answer as a table with `status`, and `message` if there is one."""
        lines = "".join(f"{name}={value}\n" for name, value in options.items()).encode()
        return self._answer(0, struct.pack("<IQ16sI", 1, 0, bytes(16), len(lines)) + lines)

    def request(self, payload):
        """A request by its payload of the guest ABI; the answer also has `value` of a get, in hexadecimal, and `entries` of a scan."""
        self.number += 1
        return self._answer(payload[0], struct.pack("<IQ", 2, self.number) + payload)

    def _answer(self, operation, message):
        try:
            self.process.stdin.write(struct.pack("<I", len(message)) + message)
        except BrokenPipeError:
            pass
        end = time.monotonic() + PATIENCE
        (length,) = struct.unpack("<I", self._read(4, end))
        answer = self._read(length, end)
        (status,) = struct.unpack_from("<I", answer)
        body = answer[4:]
        if status != 0:
            return {"status": status, "answered": "", "message": body.decode(errors="replace")}
        if operation == GET:
            return {"status": 0, "answered": "", "value": body.hex()}
        if operation == SCAN:
            return {"status": 0, "answered": "", "entries": _entries(body)}
        return {"status": 0, "answered": ""}

    def _read(self, length, end):
        """So many bytes of its output."""
        read = b""
        while len(read) < length:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise Ended(f"no answer within {PATIENCE} s")
            more = self.process.stdout.read(length - len(read))
            if not more:
                raise Ended(self._how_it_ended())
            read += more
        return read

    def _how_it_ended(self):
        code = self.process.wait()
        self.errors.seek(0)
        said = self.errors.read().decode(errors="replace").strip().splitlines()
        how = f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return "\n".join([how, *said[:6]])


def _entries(body):
    """The entries of a scan's answer, as pairs in hexadecimal."""
    (count,) = struct.unpack_from("<I", body)
    at, entries = 8, []
    for _ in range(count):
        key, value = struct.unpack_from("<II", body, at)
        at += 8
        entries.append([body[at:at + key].hex(), body[at + key:at + key + value].hex()])
        at += key + value
    return entries
