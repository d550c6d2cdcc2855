//! From a keyword to a query in Stripe's search language.
//!
//! The keyword becomes one quoted value, with quotes and backslashes escaped, whatever it looks like:
//! nobody can add a clause, and nothing of a name is lost.

/// Shortest part of a text that Stripe searches for, in characters. Shorter ones are searched as
/// whole words.
const PART_CHARS_MIN: usize = 3;

/// The query for a keyword: an e-mail address as a whole, or a part of a name.
pub(super) fn query(keyword: &str) -> String {
    let quoted = keyword.replace('\\', r"\\").replace('"', "\\\"");
    if is_email(keyword) {
        format!("email:\"{quoted}\"")
    } else if keyword.chars().count() < PART_CHARS_MIN {
        format!("name:\"{quoted}\"")
    } else {
        format!("name~\"{quoted}\"")
    }
}

/// Whether a customer that was found is one that was meant. Stripe may find more than the exact
/// address by its words; another person's data must not come along.
pub(super) fn is_meant(keyword: &str, email: Option<&str>) -> bool {
    !is_email(keyword) || email.is_some_and(|email| email.to_lowercase() == keyword.to_lowercase())
}

fn is_email(keyword: &str) -> bool {
    keyword.contains('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries() {
        let table = [
            // keyword               query
            ("Ann", r#"name~"Ann""#),
            ("Li", r#"name:"Li""#),
            ("王伟", r#"name:"王伟""#),
            ("O'Neil", r#"name~"O'Neil""#),
            ("ann@example.com", r#"email:"ann@example.com""#),
            (r#"Ann "Annie" Lee"#, r#"name~"Ann \"Annie\" Lee""#),
            (r"back\slash", r#"name~"back\\slash""#),
            (r#"\""#, r#"name:"\\\"""#),
            (r#"x" OR name:"y"#, r#"name~"x\" OR name:\"y""#),
            (r#"x@y" OR email~"a"#, r#"email:"x@y\" OR email~\"a""#),
            ("-AND OR null", r#"name~"-AND OR null""#),
        ];
        for (keyword, expected) in table {
            assert_eq!(query(keyword), expected);
        }
    }

    #[test]
    fn only_the_address_itself_is_meant() {
        let table = [
            ("ann@example.com", Some("ann@example.com"), true),
            ("ann@example.com", Some("Ann@Example.com"), true),
            ("ann@example.com", Some("jo.ann@example.com"), false),
            ("ann@example.com", None, false),
            ("ann", Some("jo@example.com"), true),
            ("ann", None, true),
        ];
        for (keyword, email, meant) in table {
            assert_eq!(is_meant(keyword, email), meant, "{keyword} {email:?}");
        }
    }
}
