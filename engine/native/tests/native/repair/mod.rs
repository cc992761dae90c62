//! Repair: what comes back from a damaged database, and what is said of the rest.
#![allow(missing_docs, reason = "a test")]

mod damage;
mod differences;
mod files;
mod found;
mod made;
