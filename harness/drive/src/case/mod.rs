//! Cases, run: what each client asks is sent, each process run is cut where the case says, and each cut leaves what it says.

mod drive;
mod left;
mod process_run;
mod source;
mod transcript;

pub use crate::stop::Stop;
pub use drive::{Course, Driven, Landmark, drive, drive_on, drive_with_interventions};
pub use left::{Answer, Left, Question, left_by_last_crash};
pub use process_run::{Phase, ProcessRun, Seen, Watch, blame_the_crash};
pub use source::Source;
pub use transcript::Transcript;
