"""Zig: the adapter's C code is compiled beside the engine."""

from .c import zig
from .common import ENGINES, WORK, Skip, digest_of, is_fresh, run, seal


def build(name, entry, version, output, native=False):
    """Builds one module; False if nothing had changed."""
    if native:
        raise Skip("the example in Zig calls WASI's C library, and is not built for this machine")
    command, compiler = zig()
    folder = ENGINES / entry["folder"]
    digest = digest_of([folder, ENGINES / "adapter/c", ENGINES / "buildlib"], {"compiler": compiler, "entry": entry, "version": version})
    if is_fresh(output, digest):
        return False
    WORK.mkdir(parents=True, exist_ok=True)
    built = WORK / f"{output.name}.linked"
    run([*command, "build-exe", "-target", "wasm32-wasi", "-mexec-model=reactor", "-O", "ReleaseSafe", "-lc", f"-I{ENGINES / 'adapter/c'}",
         f"-femit-bin={built}", "engine.zig", "adapter.c"], cwd=folder)
    seal(built, output, digest)
    return True
