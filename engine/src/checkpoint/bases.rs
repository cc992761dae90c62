//! Bases that are written one behind the other: each is closed when it has come to its size.

use crate::checkpoint::pages::PageSink;
use crate::checkpoint::runs::Partition;
use crate::checkpoint::tree::TreeWriter;
use crate::core::Core;
use crate::index::key::Key;

/// Bases that are being written.
pub(super) struct Bases {
    target: u64,
    done: Vec<Partition>,
    /// The lower bound of the one being written.
    from: Key,
    tree: TreeWriter,
}

impl Bases {
    pub(super) fn new(core: &Core, from: &Key) -> Bases {
        Bases {
            target: core.partition_bytes(core.index.pages_bytes()),
            done: Vec::new(),
            from: from.clone(),
            tree: TreeWriter::of_run(core),
        }
    }

    pub(super) fn push(
        &mut self,
        core: &mut Core,
        sink: &mut PageSink,
        key: &[u8],
        payload: &[u8],
    ) -> Option<()> {
        if sink.run_bytes() >= self.target {
            let tree = std::mem::replace(&mut self.tree, TreeWriter::of_run(core));
            let from = std::mem::replace(&mut self.from, Key::new(key));
            self.done.extend(close_base(core, sink, from, tree)?);
        }
        self.tree.push(core, sink, key, payload)
    }

    pub(super) fn finish(mut self, core: &mut Core, sink: &mut PageSink) -> Option<Vec<Partition>> {
        self.done
            .extend(close_base(core, sink, self.from, self.tree)?);
        Some(self.done)
    }
}

/// A partition without keys is none. `None` if segments ran out.
fn close_base(
    core: &mut Core,
    sink: &mut PageSink,
    from: Key,
    tree: TreeWriter,
) -> Option<Option<Partition>> {
    let run = tree.finish_run(core, sink)?;
    Some(run.map(|run| Partition {
        from,
        runs: vec![run],
        // See `Core::adopt`.
        whole: false,
    }))
}
