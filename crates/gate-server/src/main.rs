//! The binary `action-gateway`.
fn main() {}
