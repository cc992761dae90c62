//! Inodes by number: shared pieces, copied when written.
//!
//! Invariant: a clone copies one pointer; a change copies the table of pieces, one piece of pointers, and one inode.

use std::sync::Arc;

use crate::node::{Ino, Node};

const PIECE: usize = 32;

type Piece = [Option<Arc<Node>>; PIECE];

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table(Arc<Vec<Arc<Piece>>>);

fn place(ino: Ino) -> (usize, usize) {
    let at = ino.0 as usize;
    (at / PIECE, at % PIECE)
}

impl Table {
    pub(crate) fn get(&self, ino: Ino) -> Option<&Arc<Node>> {
        let (piece, at) = place(ino);
        self.0.get(piece)?[at].as_ref()
    }

    /// The inode, to be changed.
    pub(crate) fn get_mut(&mut self, ino: Ino) -> Option<&mut Node> {
        self.get(ino)?;
        let (piece, at) = place(ino);
        let piece = Arc::make_mut(&mut Arc::make_mut(&mut self.0)[piece]);
        piece[at].as_mut().map(Arc::make_mut)
    }

    /// Puts an inode in, or takes it out.
    pub(crate) fn set(&mut self, ino: Ino, node: Option<Arc<Node>>) {
        if node.is_none() && self.get(ino).is_none() {
            return;
        }
        let (piece, at) = place(ino);
        let pieces = Arc::make_mut(&mut self.0);
        while pieces.len() <= piece {
            pieces.push(Arc::new([const { None }; PIECE]));
        }
        Arc::make_mut(&mut pieces[piece])[at] = node;
    }

    /// All inodes, ascending by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Ino, &Arc<Node>)> {
        let all = self.0.iter().flat_map(|piece| piece.iter());
        all.enumerate().filter_map(|(at, node)| {
            let ino = Ino(u32::try_from(at).expect("an inode's number"));
            Some((ino, node.as_ref()?))
        })
    }
}
