//! redb as a command: messages on stdin, answers on stdout.

fn main() {
    kvsim_adapter::serve_stdio::<redb_engine::Redb>();
}
