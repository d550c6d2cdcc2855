//! Tells random commands to the authority and to a model of it that is obviously right, until they
//! differ: `cargo run -p gate-authority --example model -- --commands 100000 [--seed N]`.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test that is run by hand"
)]

#[path = "../tests/model/model.rs"]
mod model;
#[path = "../tests/model/plot.rs"]
mod plot;
#[path = "../tests/model/props.rs"]
mod props;
#[path = "../tests/model/story.rs"]
mod story;

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (mut commands, mut seed) = (100_000, 1);
    for pair in arguments.chunks(2) {
        let number = pair.get(1).and_then(|number| number.parse().ok());
        match (pair.first().map(String::as_str), number) {
            (Some("--commands"), Some(number)) => commands = number,
            (Some("--seed"), Some(number)) => seed = number,
            _ => return Err("say --commands N and --seed N, both or either".to_owned()),
        }
    }
    if let Err(story) = story::tell(commands, seed) {
        println!("{story}");
        return Err("the authority and the model differ".to_owned());
    }
    println!("{commands} commands from seed {seed}: the authority and the model agree");
    Ok(())
}
