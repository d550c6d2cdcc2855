//! Which lines of a Rust file are product code and which are only there for tests.
//!
//! Judged by the layout that rustfmt gives, not by parsing: enough to hold house rules, which a
//! person who wanted to could circumvent.

/// What a line of Rust is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Product,
    Test,
}

/// Every line with its number, from 1, and what it is for.
///
/// Tests are the files of a `tests` folder, files named `tests.rs`, and each `mod` that follows
/// `#[cfg(test)]`, to the brace that closes it.
pub(crate) fn lines<'a>(path: &str, body: &'a str) -> Vec<(usize, &'a str, Part)> {
    let all_test =
        path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs");
    let mut marked: Option<&str> = None;
    let mut closing: Option<String> = None;
    let mut parts = Vec::new();
    for (line, number) in body.lines().zip(1..) {
        let code = line.trim_start();
        let indent = line.strip_suffix(code).unwrap_or_default();
        let mut part = if all_test || closing.is_some() { Part::Test } else { Part::Product };
        if closing.as_deref() == Some(line) {
            closing = None;
        } else if closing.is_none() && code.starts_with("#[cfg(test)]") {
            marked = Some(indent);
        } else if let Some(indent) = marked.filter(|_| !code.starts_with("#[") && !is_comment(code))
        {
            if code.contains("mod ") && code.ends_with('{') {
                closing = Some(format!("{indent}}}"));
                part = Part::Test;
            }
            marked = None;
        }
        parts.push((number, line, part));
    }
    parts
}

/// Whether the line is nothing but a comment.
pub(crate) fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_told_from_the_product() {
        let body = "\
product
#[cfg(test)]
use product::only;
#[cfg(test)]
mod tests {
    fn test() {
    }
}
product
";
        let test_lines: Vec<_> = lines("crates/a/src/lib.rs", body)
            .into_iter()
            .filter(|(_, _, part)| *part == Part::Test)
            .map(|(number, _, _)| number)
            .collect();
        assert_eq!(test_lines, [5, 6, 7, 8]);
        for path in ["tests/main.rs", "crates/a/tests/b.rs", "crates/a/src/b/tests.rs"] {
            assert!(lines(path, "x\n").iter().all(|(_, _, part)| *part == Part::Test), "{path}");
        }
    }
}
