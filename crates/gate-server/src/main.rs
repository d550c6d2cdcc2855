//! The binary `action-gateway`. All of it is in the library.

fn main() -> std::process::ExitCode {
    gate_server::run()
}
