//! What only a server can do.
