//! kvsim's own engine as a command: messages on stdin, answers on stdout.

fn main() {
    kvsim_adapter::serve_stdio::<ours_engine::Ours>();
}
