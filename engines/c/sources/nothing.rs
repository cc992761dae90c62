//! Only the dependencies count here.
