//! The Store port, its in-memory and its SQLite implementation.
