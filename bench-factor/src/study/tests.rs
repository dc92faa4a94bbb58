//! Two ends in one process.
