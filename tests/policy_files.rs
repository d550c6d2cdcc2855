//! Policies in files, before they are in force: checked, shown, tried, compared, with exit codes for
//! scripts.

use crate::process::Home;

const POLICY: &str = r#"
[agents.bot]
methods = ["stripe_refund"]
allowed_hosts = ["stripe-refund.action"]
max_per_payment = "100.00"
daily_cap = "500.00"
approval_threshold = "50.00"
"#;

/// A home with these files in it.
fn with_files(files: &[(&str, &str)]) -> Home {
    let home = Home::new();
    for (name, text) in files {
        std::fs::write(home.path(name), text).unwrap();
    }
    home
}

#[test]
fn what_each_command_ends_with_and_says() {
    let home = with_files(&[
        ("good.toml", POLICY),
        ("wide.toml", &POLICY.replace("500.00", "900.00")),
        ("mute.toml", &POLICY.replace("50.00", "101.00")),
        ("typo.toml", "[agents.bot]\nmax_per_paiment = '5.00'\n"),
        ("float.toml", "[agents.bot]\ndaily_cap = 5.0\n"),
        ("rule.toml", "[[rules]]\nid = 'r'\ncontrol = 'block'\nwhen = 'context.amountMinr > 5'\n"),
        (
            "good.cases.toml",
            "[[case]]\nname = 'small'\nagent = 'bot'\namount = '20.00 USD'\ndecision = 'allow'\n",
        ),
        (
            "wide.cases.toml",
            "[[case]]\nname = 'too much'\nagent = 'bot'\namount = '101.00 USD'\ndecision = 'allow'\n",
        ),
        (
            "odd.toml",
            "[[case]]\nname = 'x'\nagent = 'bot'\namount = '1.00 USD'\ndecision = 'perhaps'\n",
        ),
    ]);
    #[rustfmt::skip]
    let table: [(&str, i32, &str); 24] = [
        // command, exit code, a part of what it says
        ("check good.toml",                                0, "1 cases in"),
        ("check good.toml",                                0, "the policy is sound"),
        ("check wide.toml",                                3, "too much: "),
        ("check wide.toml",                                3, "1 of them wrong"),
        ("check wide.toml --cases good.cases.toml",        0, "0 of them wrong"),
        ("check good.toml --cases odd.toml",               3, "perhaps"),
        ("check good.toml --cases none.toml",              2, "none.toml cannot be read"),
        ("check mute.toml",                                0, "so no person is ever asked"),
        ("check typo.toml",                                3, "line 2, column 1"),
        ("check typo.toml",                                3, "max_per_payment"),
        ("check float.toml",                               3, "line 2"),
        ("check rule.toml",                                3, "amountMinor"),
        ("check none.toml",                                2, "none.toml cannot be read"),
        ("show good.toml",                                 0, "500.00 USD"),
        ("show typo.toml",                                 3, "max_per_payment"),
        ("diff good.toml wide.toml",                       0, "900.00 USD"),
        ("diff good.toml good.toml",                       0, "They mean the same."),
        ("diff good.toml typo.toml",                       3, "max_per_payment"),
        ("try --file good.toml agent=bot amount=20.00_USD", 0, "allow"),
        ("try --file good.toml agent=bot amount=50.00_USD", 0, "approval_threshold"),
        ("try --file good.toml agent=bot amount=101.00_USD", 0, "max_per_payment"),
        ("try --file good.toml agent=who amount=1.00_USD", 0, "deny"),
        ("try --file good.toml agent=bot amount",          2, "write key=value"),
        ("try --file good.toml agent=bot amount=20_USD color=red", 2, "color"),
    ];
    for (command, code, part) in table {
        let words = command.split(' ').map(|word| match word.strip_suffix(".toml") {
            Some(_) => home.path(word).display().to_string(),
            None => word.replace('_', if word.starts_with("amount=") { " " } else { "_" }),
        });
        let words: Vec<String> = std::iter::once("policy".to_owned()).chain(words).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ran = home.run(&words);
        assert_eq!(ran.code, code, "{command}: {}{}", ran.out, ran.err);
        let said = format!("{}{}", ran.out, ran.err);
        assert!(said.contains(part), "{command} should say {part:?}: {said}");
        let json = home.run(&[&words[..], &["--json"]].concat());
        assert_eq!(json.code, code, "{command} --json: {}{}", json.out, json.err);
        if code != 2 {
            assert!(json.json().is_object(), "{command}");
        }
    }
    assert!(!home.data().exists(), "no store is opened where the files are given");
}

/// The policy in force is what is compared with, tried and shown where no file is named.
#[test]
fn the_policy_in_force_stands_in_for_a_file() {
    let home =
        with_files(&[("good.toml", POLICY), ("wide.toml", &POLICY.replace("500.00", "900.00"))]);
    let (good, wide) = (home.path("good.toml"), home.path("wide.toml"));
    let (good, wide) = (good.to_str().unwrap(), wide.to_str().unwrap());
    home.done(&["policy", "apply", good]);
    let table: [(&[&str], &str); 4] = [
        (&["policy", "diff", good], "They mean the same."),
        (&["policy", "diff", wide], "900.00 USD"),
        (&["policy", "try", "agent=bot", "amount=60.00 USD"], "require_approval"),
        (&["policy", "show"], "Policy version 1."),
    ];
    for (command, part) in table {
        let out = home.done(command).out;
        assert!(out.contains(part), "{command:?}: {out}");
    }
    let refused = home.run(&["policy", "apply", home.path("none.toml").to_str().unwrap()]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert_eq!(home.done(&["policy", "export"]).out.trim(), POLICY.trim());
}

/// The guide, followed to the letter: each text goes into its file, and each command is run.
#[test]
fn the_guide_leads_where_it_says() {
    const GUIDE: &str = include_str!("../docs/policy.md");
    let home = Home::new();
    let (policy, cases) = (home.path("policy.toml"), home.path("policy.cases.toml"));
    let mut commands = 0;
    for block in GUIDE.split("\n```").filter(|block| !block.starts_with('\n')) {
        let (kind, text) = block.split_once('\n').unwrap();
        match kind {
            "sh" => {
                commands += text.matches("action-gateway ").count();
                home.shell(text);
            }
            "toml" if text.starts_with("# policy.cases.toml") => {
                std::fs::write(&cases, text).unwrap();
            }
            // Here a policy begins from nothing.
            "toml" if text.contains("[organization]") => std::fs::write(&policy, text).unwrap(),
            "toml" => {
                let before = std::fs::read_to_string(&policy).unwrap();
                std::fs::write(&policy, format!("{before}\n{text}")).unwrap();
            }
            _ => {}
        }
    }
    assert_eq!(commands, 16);
    let text = std::fs::read_to_string(&policy).unwrap();
    assert_eq!(home.done(&["policy", "export"]).out.trim(), text.trim());
    let checked = home.done(&["policy", "check", policy.to_str().unwrap()]);
    assert!(
        checked.out.contains("5 cases in") || checked.err.contains("5 cases in"),
        "{checked:?}"
    );
}
