//! `cargo xtask imports`: who may depend on whom, held against what cargo resolved.
//!
//! The table is [`rules::TABLE`]; this file runs it, with the two rules that cargo's answer does
//! not show: what members write in their manifests and what they call in their sources.

mod graph;
mod manifests;
mod rules;
mod sources;

use crate::fault::{Fault, Outcome};
use crate::workspace::Workspace;

use self::graph::Graph;

pub(crate) fn run(workspace: &Workspace) -> Outcome {
    let graph = Graph::from_metadata(&workspace.metadata()?)?;
    let texts = workspace.texts()?;

    let mut findings = rules::broken(&graph);
    for text in &texts {
        findings.extend(manifests::broken(&text.path, &text.body));
        findings.extend(sources::broken(&text.path, &text.body));
    }
    Fault::unless_empty(
        &findings,
        "remove the dependency or the call; if the wall itself is wrong, change the table in \
         xtask/src/imports/rules.rs and ARCHITECTURE.md in a commit of its own",
    )?;

    let absent = rules::absent(&graph);
    println!("imports: {} rules hold for {} crates", rules::TABLE.len(), graph.members().count());
    if !absent.is_empty() {
        println!("imports: no such crate in the workspace: {}", absent.join(", "));
    }
    Ok(())
}
