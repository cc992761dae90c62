//! Engines that use files: the adapter of each language, and a small engine behind it.

use super::{File, Language};

macro_rules! adapter {
    ($path:literal) => {
        include_str!(concat!("../../../../engines/adapter/", $path))
    };
}

macro_rules! own {
    ($path:literal) => {
        include_str!(concat!("../../files/", $path))
    };
}

const RUST: [File; 11] = [
    ("Cargo.toml", own!("rust/Cargo.toml")),
    ("README.md", own!("rust/README.md")),
    ("rustfmt.toml", adapter!("rust/rustfmt.toml")),
    ("src/lib.rs", adapter!("rust/example/src/lib.rs")),
    ("adapter/Cargo.toml", own!("rust/adapter.toml")),
    ("adapter/src/lib.rs", adapter!("rust/src/lib.rs")),
    ("adapter/src/answer.rs", adapter!("rust/src/answer.rs")),
    ("adapter/src/error.rs", adapter!("rust/src/error.rs")),
    ("adapter/src/payload.rs", adapter!("rust/src/payload.rs")),
    ("adapter/src/server.rs", adapter!("rust/src/server.rs")),
    (
        "adapter/src/transport.rs",
        adapter!("rust/src/transport.rs"),
    ),
];

const GO: [File; 9] = [
    ("go.mod", own!("go/go.mod")),
    ("README.md", own!("go/README.md")),
    ("main.go", adapter!("go/example/main.go")),
    ("adapter/go.mod", adapter!("go/go.mod")),
    ("adapter/adapter.go", adapter!("go/adapter.go")),
    ("adapter/server.go", adapter!("go/server.go")),
    ("adapter/transport.go", adapter!("go/transport.go")),
    ("adapter/reactor.go", adapter!("go/reactor.go")),
    (
        "adapter/hostmap/hostmap_wasip1.go",
        adapter!("go/hostmap/hostmap_wasip1.go"),
    ),
];

const C: [File; 3] = [
    ("README.md", own!("c/README.md")),
    ("engine.c", adapter!("c/engine.c")),
    ("kvsim_adapter.h", adapter!("c/kvsim_adapter.h")),
];

const ZIG: [File; 5] = [
    ("README.md", own!("zig/README.md")),
    ("engine.zig", adapter!("zig/engine.zig")),
    ("adapter.c", adapter!("zig/adapter.c")),
    ("kvsim_adapter.zig", adapter!("zig/kvsim_adapter.zig")),
    ("kvsim_adapter.h", adapter!("c/kvsim_adapter.h")),
];

/// The files of a template.
pub(super) fn files(language: Language) -> &'static [File] {
    match language {
        Language::Rust => &RUST,
        Language::Go => &GO,
        Language::C => &C,
        Language::Zig => &ZIG,
    }
}

/// The command that builds it, in its directory.
pub(super) fn build(language: Language) -> &'static str {
    match language {
        Language::Rust => "cargo build --release --target wasm32-wasip1",
        Language::Go => "GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o engine.wasm .",
        Language::C => {
            "python3 -m ziglang cc -target wasm32-wasi -mexec-model=reactor -O2 -gline-tables-only -o engine.wasm engine.c"
        }
        Language::Zig => {
            "zig build-exe -target wasm32-wasi -mexec-model=reactor -O ReleaseSafe -lc -femit-bin=engine.wasm engine.zig adapter.c"
        }
    }
}

/// Where the build puts the module, in its directory.
pub(super) fn module(language: Language) -> &'static str {
    match language {
        Language::Rust => "target/wasm32-wasip1/release/engine.wasm",
        Language::Go | Language::C | Language::Zig => "engine.wasm",
    }
}
