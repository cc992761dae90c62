//! What is compared between calls: the whole trees, and the model with itself.

use kvsim_fs::{CrashKind, CrashState, FileKind, OpenHow, Persisted, ROOT_FD};

use super::Pair;
use super::real_directory::{Found, walk};

impl Pair {
    /// What must hold of the model alone: if all pending steps persist, a crash leaves what callers see; a drawn state is possible.
    pub(super) fn check_model(&mut self) {
        let all = CrashState {
            persisted: self
                .model
                .pending()
                .iter()
                .map(|step| Persisted::whole(step.id))
                .collect(),
        };
        let after = self.model.image_hash_after(&all);
        assert_eq!(
            after,
            Some(self.model.image_hash()),
            "call {}: all persists",
            self.calls
        );
        let state = self.model.draw_crash();
        if let Err(error) = self.model.check_crash(&state) {
            panic!("call {}: {error}: {state:?}", self.calls);
        }
        let mut crashed = self.model.clone();
        crashed.crash(0, CrashKind::Power, &state).expect("checked");
        let expected = self.model.image_hash_after(&state);
        assert_eq!(Some(crashed.image_hash()), expected, "call {}", self.calls);
        assert_eq!(crashed.image_hash(), crashed.durable_hash());
        if self.below(20) == 0 {
            self.open.clear();
            let before = self.model.image_hash();
            let none = CrashState::default();
            self.model
                .crash(0, CrashKind::Process, &none)
                .expect("nothing to refuse");
            assert_eq!(self.model.image_hash(), before);
            assert_eq!(self.model.open_files(), 0);
        }
    }

    /// Compares both trees wholly.
    pub(crate) fn compare(&mut self) {
        let mut ours = Vec::new();
        for listed in self.model.list() {
            let bytes = match listed.kind {
                FileKind::Directory => Vec::new(),
                FileKind::Symlink => self.model.read_link(ROOT_FD, &listed.path).expect("a link"),
                FileKind::File => {
                    let how = OpenHow {
                        no_follow: true,
                        ..OpenHow::READ
                    };
                    let fd = self
                        .model
                        .open(ROOT_FD, &listed.path, &how)
                        .expect("a file");
                    let size = usize::try_from(listed.size).expect("small");
                    let mut bytes = vec![1; size + 1];
                    let count = self.model.read_at(fd, 0, &mut bytes).expect("a file");
                    bytes.truncate(count);
                    self.model.close(fd).expect("it is open");
                    bytes
                }
            };
            let same = self
                .model
                .stat_at(ROOT_FD, &listed.path, false)
                .expect("listed")
                .ino;
            ours.push((listed.path, listed.kind, bytes, same));
        }
        let mut theirs = Vec::new();
        walk(&self.root, &mut Vec::new(), &mut theirs);
        ours.sort();
        theirs.sort();
        let names = |all: &[Found]| {
            let names = all.iter().map(|(path, kind, ..)| (path.clone(), *kind));
            names.collect::<Vec<_>>()
        };
        assert_eq!(names(&ours), names(&theirs), "call {}", self.calls);
        for (one, two) in ours.iter().zip(&theirs) {
            let path = one.0.escape_ascii();
            assert!(one.2 == two.2, "call {}: bytes of {path}", self.calls);
            // Names of one file here are names of one file there.
            for (other, another) in ours.iter().zip(&theirs) {
                assert_eq!(one.3 == other.3, two.3 == another.3, "links of {path}");
            }
        }
    }
}
