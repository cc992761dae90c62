//! Stops a build that is about to compile RocksDB's C++ because nobody said where the system's library is.

use std::env::var_os;

fn main() {
    for name in ["ROCKSDB_LIB_DIR", "ROCKSDB_COMPILE"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let is_asked_for = var_os("CARGO_FEATURE_ROCKSDB").is_some();
    let is_decided = var_os("ROCKSDB_LIB_DIR").is_some() || var_os("ROCKSDB_COMPILE").is_some();
    if is_asked_for && !is_decided {
        println!(
            "cargo::error=RocksDB is linked against the system's library: install librocksdb-dev and libclang-dev, and set \
             ROCKSDB_LIB_DIR to where librocksdb.so is (/usr/lib/x86_64-linux-gnu) and ROCKSDB_INCLUDE_DIR to /usr/include; \
             or set ROCKSDB_COMPILE=1 to compile its C++ for the better part of an hour"
        );
    }
}
