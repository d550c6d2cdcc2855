//! The binary `action-gateway` for its black-box tests: the same one call into the library.

fn main() -> std::process::ExitCode {
    gate_server::run()
}
