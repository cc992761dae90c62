//! The header is made of the sources, and is in the repository so that nobody needs cbindgen to use it.
#![allow(missing_docs, reason = "a test")]

use std::path::Path;

/// Goal: the header that is in the repository is that of the sources. Method: it is made anew and compared; with KVSIM_UPDATE=1 it is written.
#[test]
fn the_header_is_that_of_the_sources() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml")).expect("a configuration");
    let made = cbindgen::Builder::new()
        .with_config(config)
        .with_src(here.join("src/lib.rs"))
        .generate()
        .expect("the sources are understood");
    let mut header = Vec::new();
    made.write(&mut header);
    let header = String::from_utf8(header).expect("a text");
    let path = here.join("include/kvdb.h");
    if std::env::var("KVSIM_UPDATE").is_ok_and(|value| value == "1") {
        std::fs::write(&path, &header).expect("it can be written");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == header,
        "{} is not made of these sources: KVSIM_UPDATE=1 cargo test -p kvsim-c --test header",
        path.display()
    );
}
