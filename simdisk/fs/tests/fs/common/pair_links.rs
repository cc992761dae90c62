//! Calls with two paths.

use rustix::fs::{self as real, AtFlags};

use super::Pair;

impl Pair {
    pub(super) fn symlink_one(&mut self) {
        let (at, path) = (self.start(), self.path());
        let target = self.pick(&[
            "a",
            "b",
            "a/b",
            "../a",
            "c/d",
            "..",
            ".",
            "e",
            "d/",
            "",
            "/kvsim-is-not-here",
            "b/../a",
            "log",
            "./log",
        ]);
        let model = self
            .model
            .symlink(target.as_bytes(), self.both(at).0, &path);
        self.on_path("symlink", at, &path, model, |fd| {
            real::symlinkat(target, fd, &path[..])
        });
    }

    pub(super) fn rename_one(&mut self) {
        let (at, path, to, new) = (self.start(), self.path(), self.start(), self.path());
        let model = self
            .model
            .rename(self.both(at).0, &path, self.both(to).0, &new);
        if self.leads_out(&model) {
            return;
        }
        let real = real::renameat(self.both(at).1, &path[..], self.both(to).1, &new[..]);
        let text = || format!("rename {} {}", path.escape_ascii(), new.escape_ascii());
        self.same(text, model, real);
    }

    pub(super) fn link_one(&mut self) {
        let (at, path, to, new) = (self.start(), self.path(), self.start(), self.path());
        let follow = self.below(3) == 0;
        let (old_fd, new_fd) = (self.both(at).0, self.both(to).0);
        let model = self.model.link(old_fd, &path, follow, new_fd, &new);
        if self.leads_out(&model) {
            return;
        }
        let flags = match follow {
            true => AtFlags::SYMLINK_FOLLOW,
            false => AtFlags::empty(),
        };
        let real = real::linkat(self.both(at).1, &path[..], self.both(to).1, &new[..], flags);
        let text = || format!("link {} {}", path.escape_ascii(), new.escape_ascii());
        self.same(text, model, real);
    }
}
