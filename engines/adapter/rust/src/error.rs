//! How a request that was not done ends.

/// The statuses of the guest ABI, apart from `Ok`. They say what a client may take for granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Of a get only; the adapter answers it.
    NotFound = 1,
    /// The engine found damage.
    Corruption = 2,
    /// A call failed; a write may or may not be found after the next opening.
    IoError = 3,
    /// No space; nothing was written.
    NoSpace = 4,
    /// Nothing was written, and nothing will be until the next opening.
    ReadOnly = 5,
    /// The request is wrong or not offered; nothing was written.
    Invalid = 6,
    /// The database is closed; the adapter answers it.
    Closed = 7,
}

/// A status and a message for people.
#[derive(Debug, Clone)]
pub struct Error {
    /// How the request ended.
    pub status: Status,
    /// Why.
    pub message: String,
}

/// What a method of an engine ends with.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error with this status.
    pub fn new(status: Status, message: impl std::fmt::Display) -> Self {
        Error { status, message: message.to_string() }
    }

    /// A call failed.
    pub fn io(message: impl std::fmt::Display) -> Self {
        Error::new(Status::IoError, message)
    }

    /// The engine found damage.
    pub fn corruption(message: impl std::fmt::Display) -> Self {
        Error::new(Status::Corruption, message)
    }

    /// The request is wrong.
    pub fn invalid(message: impl std::fmt::Display) -> Self {
        Error::new(Status::Invalid, message)
    }

    /// The engine has no such operation.
    pub fn not_offered(operation: &str) -> Self {
        Error::invalid(format_args!("this engine does not offer `{operation}`"))
    }
}

/// `IoError`; whoever knows that nothing was written says `NoSpace` or `ReadOnly` instead.
impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Error::io(error)
    }
}
