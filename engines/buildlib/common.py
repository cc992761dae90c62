"""What the recipes share: places, commands, compilers, and whether anything has changed."""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

ENGINES = Path(__file__).resolve().parent.parent
OUT = ENGINES / "out"
WORK = ENGINES / ".build"


class Skip(Exception):
    """A compiler is not there; the text says which, and how to get it."""


class Failed(Exception):
    """A build failed; the text is what the compiler said."""


def run(command, cwd=None, env=None):
    """Runs a command and returns what it printed. An error if it fails, with the end of what it said."""
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        said = (done.stderr + done.stdout).strip().splitlines()
        raise Failed("\n".join([" ".join(map(str, command))] + said[:12] + (["..."] + said[-12:] if len(said) > 24 else said[12:])))
    return done.stdout


_versions = {}


def version_of(command, help_text):
    """The version that a compiler prints, asked once. Skips if the compiler does not run."""
    key = tuple(command)
    if key not in _versions:
        try:
            _versions[key] = run(command).strip()
        except (OSError, Failed):
            _versions[key] = None
    if _versions[key] is None:
        raise Skip(help_text)
    return _versions[key]


def digest_of(paths, facts):
    """A hash over files and folders (what is git-ignored there left out) and over facts that can be written as JSON."""
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for path in paths:
        files = [path] if path.is_file() else sorted(it for it in path.rglob("*") if it.is_file())
        for file in files:
            if not {"target", "__pycache__", "node_modules"} & set(file.relative_to(path if path.is_dir() else path.parent).parts):
                digest.update(os.path.relpath(file, ENGINES).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def is_fresh(output, digest):
    """Whether this output was built from these inputs."""
    stamp = output.with_name(output.name + ".stamp")
    return output.exists() and stamp.exists() and stamp.read_text() == digest


def seal(built, output, digest):
    """Moves what was built to its place and notes the inputs."""
    output.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(built, output.with_name(output.name + ".new"))
    os.replace(output.with_name(output.name + ".new"), output)
    output.with_name(output.name + ".stamp").write_text(digest)
