"""Rust: each engine is a package of its own with its own lock file, which pins the engine by a checksum."""

import os
import re
import shutil

from .common import ENGINES, WORK, Skip, digest_of, is_fresh, run, seal, version_of

TARGET = "wasm32-wasip1"


def clean_environment():
    """Without what a surrounding cargo or a user's settings for the host would put into the module."""
    dropped = ("CARGO_TARGET_DIR", "CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "CARGO_BUILD_TARGET")
    return {name: value for name, value in os.environ.items() if name not in dropped and not name.startswith("CARGO_PROFILE")}


def has_target():
    libraries = run(["rustc", "--print", "sysroot"]).strip() + f"/lib/rustlib/{TARGET}/lib"
    return os.path.isdir(libraries)


def compiler():
    """The version of the compiler; the target is added where rustup is there."""
    version = version_of(["rustc", "--version"], "Rust is not there: see https://rustup.rs")
    if not has_target():
        version_of(["rustup", "target", "add", TARGET], f"Rust has no target {TARGET}: rustup target add {TARGET}")
        if not has_target():
            raise Skip(f"Rust has no target {TARGET}: rustup target add {TARGET}")
    return version


def staged(folder, package):
    """A copy of a package with the adapter inside. Cargo puts the paths of dependencies that lie outside of a workspace into the names of all functions, so
    without it the module would be another one in each clone."""
    stage = WORK / "rust-packages" / (folder.name if package == folder else f"{folder.name}-{package.name}")
    shutil.rmtree(stage, ignore_errors=True)
    shutil.copytree(folder / "src", stage / "src")
    shutil.copytree(ENGINES / "adapter/rust/src", stage / "adapter/src")
    shutil.copy(package / "Cargo.lock", stage)
    manifest = (package / "Cargo.toml").read_text()
    manifest = re.sub(r'"[./]*/adapter/rust"', '"adapter"', manifest)
    (stage / "Cargo.toml").write_text(re.sub(r'"[./]*/src/', '"src/', manifest))
    # The adapter is the root of a workspace, and now it is a member of one.
    adapter = (ENGINES / "adapter/rust/Cargo.toml").read_text()
    (stage / "adapter/Cargo.toml").write_text(re.sub(r"(?ms)^\[(workspace|profile[^]]*)\]\n.*?(?=^\[|\Z)", "", adapter))
    return stage


def build(name, entry, version, output, native=False):
    """Builds one module, or one program for this machine; False if nothing had changed."""
    folder = ENGINES / entry["folder"]
    package = folder if version == entry["default"] else folder / "versions" / version
    features = entry.get("features", [])
    inputs = [folder, ENGINES / "adapter/rust", ENGINES / "buildlib", *(ENGINES / it for it in entry.get("also", []))]
    digest = digest_of(inputs, {"compiler": compiler(), "entry": entry, "version": version, "native": native})
    if is_fresh(output, digest):
        return False
    target = WORK / "rust"
    member = entry.get("package", folder.name + "-engine")
    # The adapter's own example is a member of its workspace, and ours is built with the engine of this workspace.
    if folder.parent == ENGINES / "rust" and not entry.get("also"):
        folder = package = staged(folder, package)
    cargo_home = os.environ.get("CARGO_HOME") or os.path.expanduser("~/.cargo")
    environment = clean_environment()
    environment["CARGO_ENCODED_RUSTFLAGS"] = "\x1f".join([f"--remap-path-prefix={ENGINES}=engines", f"--remap-path-prefix={cargo_home}=cargo"])
    environment["ENGINE_VERSION"] = version
    if version != entry["default"]:
        environment |= entry.get("versions_environment", {})
    command = ["cargo", "build", "--release", "--locked", *([] if native else ["--target", TARGET]), "--target-dir", str(target), "--manifest-path", str(package / "Cargo.toml")]
    binary = entry.get("command") if native else entry.get("binary")
    run([*command, "-p", member, *(["--bin", binary] if binary else ["--lib"]), *(["--features", ",".join(features)] if features else [])], cwd=folder, env=environment)
    if native:
        seal(target / "release" / binary, output, digest)
    else:
        seal(target / TARGET / "release" / f"{binary or member.replace('-', '_')}.wasm", output, digest)
    return True
