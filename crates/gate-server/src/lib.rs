//! The gateway's composition root: configuration, HTTP server and command line.
