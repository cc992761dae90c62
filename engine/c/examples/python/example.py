"""The same as example.c in Python. Takes the path of the database."""
import sys

import kvdb

with kvdb.Database(sys.argv[1] if len(sys.argv) > 1 else "example.kvdb", size_bytes=16 << 20) as db:
    # A write that has returned survives a power cut; a relaxed one does a moment later.
    db.put(b"user/1", b"Ada")
    db.put(b"user/2", b"Grace", kvdb.RELAXED)
    db.put(b"visit/1", b"home", kvdb.RELAXED)
    print("user/1:", db.get(b"user/1").decode())

    # A snapshot stays as it is while a batch is written, all of it or nothing.
    with db.snapshot() as snapshot:
        db.write([(b"user/1", None), (b"user/3", b"Edsger")])
        print("user/1 now:", db.get(b"user/1") or "nothing")
        print("user/1 in the snapshot:", snapshot.get(b"user/1").decode())

    # The users, the last first.
    for key, value in db.scan(b"user/", b"user0", reverse=True):
        print(key.decode(), "=", value.decode())

    # What fails says why.
    try:
        db.put(b"", b"")
    except kvdb.Error as error:
        print(f"status {error.status}: {error}")
