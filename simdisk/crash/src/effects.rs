//! Pending effects as those see them who list crash states, compare them and make them smaller: whatever is stored, on a device or in files.

use crate::{CrashError, CrashState, Sectors, Survivor, Tears};

/// What is known of a pending effect without its contents: enough to find the effect that plays the same part in another run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Role {
    /// What it does; one storage model has its own numbers.
    pub kind: u8,
    /// In which file or directory; nothing on a device.
    pub file: Option<FileRole>,
    /// Where in it: the first byte. 0 where there is no such place.
    pub offset: u64,
    /// How many bytes.
    pub len_bytes: u64,
    /// Whether it was reported as done. A step in a file system always was.
    pub is_complete: bool,
}

/// Which file an effect belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileRole {
    /// A hash of its name.
    pub name: u64,
    /// A hash of its name without digits: `wal-1` and `wal-2` play the same part.
    pub series: u64,
}

impl Role {
    /// How much two are alike, in points; nothing if one cannot stand for the other.
    #[must_use]
    pub fn likeness(&self, other: &Role) -> Option<i64> {
        let same = |is_same: bool, points: i64| if is_same { points } else { 0 };
        let file = match (self.file, other.file) {
            (Some(own), Some(other)) => {
                same(own.series == other.series, 6) + same(own.name == other.name, 4)
            }
            _ => 0,
        };
        (self.kind == other.kind).then(|| {
            4 + file
                + same(self.offset == other.offset, 6)
                + same(self.len_bytes == other.len_bytes, 2)
                + same(self.is_complete == other.is_complete, 2)
        })
    }
}

/// A pending effect that a crash can keep.
#[derive(Debug, Clone)]
pub struct Effect {
    /// Its number.
    pub id: u64,
    /// Places, ascending, in the list of those without which it cannot persist, each before its own. Those that these need are among them or follow from
    /// their own lists.
    pub needs: Vec<usize>,
    /// How it can be torn, if it can.
    pub tears: Option<Tears>,
    /// The bytes `[first, end)` that it lays over those of others, so that the order of the two makes a difference; nothing where no order does.
    pub lies_over: Option<(u64, u64)>,
}

impl Effect {
    /// Whether the order of the two makes a difference.
    #[must_use]
    pub fn overlaps(&self, other: &Effect) -> bool {
        match (self.lies_over, other.lies_over) {
            (Some((a, a_end)), Some((b, b_end))) => a < b_end && b < a_end,
            _ => false,
        }
    }
}

/// All that a power cut now may keep or lose.
#[derive(Debug, Clone)]
pub struct Effects {
    /// The effects, oldest first, those aside that can never persist.
    pub list: Vec<Effect>,
    /// Something may be lost. Else all of them persist.
    pub loss: bool,
    /// A later effect may persist without an earlier one that it does not need. Else only prefixes persist.
    pub reorder: bool,
}

/// A storage model between two events, as crash states are made of it.
pub trait CrashStates {
    /// What a power cut now may keep or lose.
    fn effects(&self) -> Effects;

    /// The roles of the latest pending effects with their numbers, at most so many, oldest first; those that can never persist among them.
    fn roles(&self, most: usize) -> Vec<(u64, Role)>;

    /// Whether something that makes effects durable is under way.
    fn is_syncing(&self) -> bool;

    /// Whether a power cut now could leave this.
    ///
    /// # Errors
    /// Why it could not.
    fn check_crash(&self, state: &CrashState) -> Result<(), CrashError>;

    /// A hash of what reads return after a power cut now that leaves `state`.
    ///
    /// # Errors
    /// If no power cut could leave this.
    fn image_hash_after(&self, state: &CrashState) -> Result<u128, CrashError>;

    /// Lets an effect persist in a state as well, as far as a cut can leave that: with these sectors, or else whole, or else whole with all that it
    /// needs. Says whether it does.
    fn keep(&self, state: &mut CrashState, survivor: &Survivor) -> bool {
        for sectors in [survivor.sectors.clone(), Sectors::All] {
            let id = survivor.id;
            state.survivors.push(Survivor { id, sectors });
            if self.check_crash(state).is_ok() {
                return true;
            }
            state.survivors.pop();
        }
        let mut with_needs = state.clone();
        self.effects().add(&mut with_needs, survivor.id);
        let fits = self.check_crash(&with_needs).is_ok();
        if fits {
            *state = with_needs;
        }
        fits
    }
}

impl Effects {
    /// Adds an effect to a state, whole, and what it needs before it. Where no order makes a difference the state is in the order of the numbers then.
    fn add(&self, state: &mut CrashState, id: u64) {
        let Some(at) = self.list.iter().position(|effect| effect.id == id) else {
            return;
        };
        let mut wanted = vec![at];
        let mut is_wanted = vec![false; at + 1];
        while let Some(at) = wanted.pop() {
            if !std::mem::replace(&mut is_wanted[at], true) {
                wanted.extend_from_slice(&self.list[at].needs);
            }
        }
        for effect in (0..=at)
            .filter(|at| is_wanted[*at])
            .map(|at| &self.list[at])
        {
            match state.survivors.iter_mut().find(|it| it.id == effect.id) {
                Some(survivor) => survivor.sectors = Sectors::All,
                None => state.survivors.push(Survivor::whole(effect.id)),
            }
        }
        if self.list.iter().all(|effect| effect.lies_over.is_none()) {
            state.survivors.sort_by_key(|survivor| survivor.id);
        }
    }
}
