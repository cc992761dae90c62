"""Go: each engine is a module of its own, whose go.sum pins all that it needs by a checksum.

The modules are copied into a folder `vendor` outside of the repository, and files that WASI preview 1 needs are put beside theirs by
`-overlay`. Overlays do not work on Go's own cache of modules, so the copy is needed."""

import json
import os
import shutil
from pathlib import Path

from .common import ENGINES, WORK, Failed, Skip, digest_of, is_fresh, run, seal, version_of

HELP = "Go 1.24 or later is not there: see https://go.dev/dl"


def compiler():
    """The version of Go."""
    version = version_of(["go", "env", "GOVERSION"], HELP)
    numbers = version.removeprefix("go").split(".")[:2]
    if [int("".join(filter(str.isdigit, it)) or 0) for it in numbers] < [1, 24]:
        raise Skip(f"{HELP}; here is {version}")
    return version


def overlay_of(entry, vendor):
    """Where each file of the overlays goes. A file that is left out is replaced by nothing."""
    replace = {}
    for name in entry.get("without", []):
        if not (vendor / name).exists():
            raise Failed(f"the catalog leaves out {name}, which is not there")
        replace[str(vendor / name)] = ""
    for name in entry.get("overlay", []):
        root = ENGINES / "go/overlay" / name
        for file in sorted(it for it in root.rglob("*") if it.is_file()):
            if not (vendor / file.relative_to(root)).parent.exists():
                raise Failed(f"{file.relative_to(ENGINES)} is for a package that this engine does not have")
            replace[str(vendor / file.relative_to(root))] = str(file)
    return replace


def with_page_size(page_bytes, stage, environment):
    """Where Go's own file goes that says how large a page is. On WebAssembly Go says 64 KiB, as its memory grows; on most machines a page has 4 KiB, and the layout of
    some engines follows it."""
    file = Path(run(["go", "env", "GOROOT"], cwd=stage, env=environment).strip()) / "src/os/types.go"
    says = "func Getpagesize() int { return syscall.Getpagesize() }"
    text = file.read_text()
    if says not in text:
        raise Failed(f"{file} does not have `{says}`: this Go says the size of a page elsewhere; see engines/buildlib/go.py")
    changed = stage / "types.go.overlay"
    changed.write_text(text.replace(says, f"func Getpagesize() int {{ _ = syscall.Getpagesize; return {page_bytes} }}"))
    return {str(file): str(changed)}


def build(name, entry, version, output, native=False):
    """Builds one module, or one program for this machine; False if nothing had changed. Natively an engine has its own files for its system, so
    there are no overlays."""
    folder = ENGINES / entry["folder"]
    overlays = [ENGINES / "go/overlay" / it for it in entry.get("overlay", [])]
    digest = digest_of([folder, ENGINES / "adapter/go", ENGINES / "buildlib", *overlays], {"compiler": compiler(), "entry": entry, "version": version, "native": native})
    if is_fresh(output, digest):
        return False
    pins = folder if version == entry["default"] else folder / "versions" / version
    stage = WORK / "go" / (f"native-{output.name}" if native else output.stem)
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir(parents=True)
    for file in [*folder.glob("*.go"), pins / "go.mod", pins / "go.sum"]:
        if file.exists():
            shutil.copy(file, stage)
    environment = {key: value for key, value in os.environ.items() if key not in ("GOFLAGS", "GOEXPERIMENT", "GOOS", "GOARCH")}
    environment |= {"GOWORK": "off", "GOFLAGS": ""} | ({"CGO_ENABLED": "0"} if native else {"GOOS": "wasip1", "GOARCH": "wasm"})
    mode = "exe" if native else entry.get("mode", "c-shared")
    built, arguments = stage / "engine.built", ["-trimpath", f"-ldflags=-X main.version={version}"]
    if entry.get("package"):
        # A package of the adapter itself, which needs nothing.
        run(["go", "build", f"-buildmode={mode}", "-trimpath", *entry.get("flags", []), "-o", str(built), entry["package"]], cwd=folder, env=environment)
    else:
        # A copy, since Go writes the path into the module, and the module is to be the same wherever this clone is.
        shutil.copytree(ENGINES / "adapter/go", stage / "adapter")
        run(["go", "mod", "edit", "-replace=kvsim/adapter=./adapter"], cwd=stage, env=environment)
        run(["go", "mod", "vendor"], cwd=stage, env=environment)
        replace = {} if native else overlay_of(entry, stage / "vendor")
        if not native and "page_bytes" in entry:
            replace |= with_page_size(entry["page_bytes"], stage, environment)
        overlay = stage / "overlay.json"
        overlay.write_text(json.dumps({"Replace": replace}, indent=1))
        run(["go", "build", f"-buildmode={mode}", "-mod=vendor", f"-overlay={overlay}", *arguments, *entry.get("flags", []), "-o", str(built), "."],
            cwd=stage, env=environment)
    seal(built, output, digest)
    return True
