//! Links between the project's own Markdown files lead somewhere: the file exists and, for
//! `file.md#part`, so does the heading. Links to other hosts are not followed.

use std::collections::{BTreeMap, BTreeSet};

use crate::workspace::Text;

/// Every link that leads nowhere; `exists` answers for paths from the root.
pub(crate) fn broken(texts: &[Text], exists: impl Fn(&str) -> bool) -> Vec<String> {
    let pages: BTreeMap<&str, BTreeSet<String>> = texts
        .iter()
        .filter(|text| text.path.ends_with(".md"))
        .map(|text| (text.path.as_str(), anchors(&text.body)))
        .collect();
    let mut broken = Vec::new();
    for text in texts.iter().filter(|text| text.path.ends_with(".md")) {
        for (number, target) in prose(&text.body).flat_map(|(number, line)| {
            targets(&line).into_iter().map(move |target| (number, target))
        }) {
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let here = format!("{}:{number}: {target}", text.path);
            let Some(path) = resolve(&text.path, file) else {
                broken.push(format!("{here} leads out of the project"));
                continue;
            };
            if !exists(&path) {
                broken.push(format!("{here} leads to no file: correct the path"));
            } else if pages
                .get(path.as_str())
                .is_some_and(|page| !anchor.is_empty() && !page.contains(anchor))
            {
                broken.push(format!("{here} leads to no heading: correct what follows `#`"));
            }
        }
    }
    broken
}

/// The lines outside fenced blocks, with their numbers, without `inline code`.
fn prose(body: &str) -> impl Iterator<Item = (usize, String)> {
    let mut fenced = false;
    let lines = (1..).zip(body.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        !fenced && !is_fence
    });
    lines.map(|(number, line)| (number, line.split('`').step_by(2).collect::<Vec<_>>().join(" ")))
}

/// Where the links of a line lead, those to other hosts aside.
fn targets(line: &str) -> Vec<String> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let named = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, to)| to);
    let all = inline.chain(named).filter_map(|target| target.split_whitespace().next());
    let all = all.map(|target| target.trim_matches(['<', '>']));
    all.filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
        .map(str::to_owned)
        .collect()
}

/// The path from the root of what `link` means in the file `from`; none when it leads above it.
fn resolve(from: &str, link: &str) -> Option<String> {
    if link.is_empty() {
        return Some(from.to_owned());
    }
    let mut parts: Vec<&str> = match link.strip_prefix('/') {
        Some(_) => Vec::new(),
        None => from.split('/').collect(),
    };
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The names that headings get on a repository host, and those set by hand with `id="…"`.
fn anchors(body: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut fenced = false;
    for line in body.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if let Some(title) = line.strip_prefix('#').filter(|_| !fenced) {
            let slug = slug(title.trim_start_matches('#').trim());
            let again = (1..).map(|count| format!("{slug}-{count}"));
            let mut names = std::iter::once(slug.clone()).chain(again);
            anchors.extend(names.find(|name| !anchors.contains(name)));
        }
        let by_hand = line.split("id=\"").skip(1).filter_map(|rest| rest.split('"').next());
        anchors.extend(by_hand.map(str::to_owned));
    }
    anchors
}

fn slug(title: &str) -> String {
    // Of a link in a heading, only its words count.
    let mut words = String::new();
    let mut rest = title;
    while let Some((before, after)) = rest.split_once("](") {
        words.push_str(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    words.push_str(rest);
    let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_somewhere() {
        #[rustfmt::skip]
        let table = [
            // a line of docs/a.md                          what is said, if anything
            ("see [b](b.md)",                               ""),
            ("see [b](./b.md#a-heading-of-b)",              ""),
            ("see [b](b.md#a-heading-of-b-1)",              ""),
            ("see [b](b.md#made)",                          ""),
            ("see [root](../README.md), [self](#here)",     ""),
            ("see [code](../crates/x/src/lib.rs)",          ""),
            ("see [folder](../crates/)",                    ""),
            ("see [out](https://example.com/none.md)",      ""),
            ("`[b](none.md)`",                              ""),
            ("see [b](none.md)",                            "leads to no file"),
            ("see [b](b.md#none)",                          "leads to no heading"),
            ("see [b](b.md#not-a-heading)",                 "leads to no heading"),
            ("see [self](#none)",                           "leads to no heading"),
            ("see [b](b.md \"title\") and [c](c.md)",       "leads to no file"),
            ("[name]: none.md",                             "leads to no file"),
            ("see [up](../../else.md)",                     "leads out of the project"),
        ];
        let exists = ["README.md", "docs/a.md", "docs/b.md", "crates", "crates/x/src/lib.rs"];
        let b = "# A [heading](x) of `b`\n## A heading of b\n```\n# Not a heading\n```\n<a id=\"made\"></a>\n";
        for (line, said) in table {
            let text = |path: &str, body: String| Text { path: path.to_owned(), body };
            let texts = [
                text("docs/a.md", format!("# Here\n{line}\n")),
                text("docs/b.md", b.replace("](x)", "](a.md)")),
            ];
            let found = broken(&texts, |path| exists.contains(&path));
            match found.as_slice() {
                [] => assert_eq!(said, "", "{line} passed"),
                [one] => assert!(!said.is_empty() && one.contains(said), "{line}: {one}"),
                more => panic!("{line}: {more:?}"),
            }
        }
    }
}
