//! Votes of several people: roles and numbers per reason, whose yes counts and how long, and that
//! what is approved is what was shown.

use gate_core::{ApprovalState, Intent, State, Tool, Wanted};
use gate_store::Write;

use crate::outcomes::write;
use crate::world::{HOUR, PLAIN, World, approval, codes, run, user};

/// From 20 dollars on a support lead decides; from 50 on two people of risk or legal as well.
const POLICY: &str = r#"
[agents.bot]
owner = "olga"
methods = ["stripe_refund"]
allowed_hosts = ["stripe-refund.action"]
daily_cap = "500.00"
approval_threshold = "20.00"
reviewers = ["support-leads"]
on_approval = "agent"
tools = ["finance_refund"]

[[rules]]
id = "large"
agents = ["*"]
amount_over = "50.00"
control = "require_approval"
reviewers = ["risk", "legal"]
approvals_required = 2
"#;

fn world() -> World {
    let world = World::new(PLAIN);
    world.apply(POLICY);
    for (name, roles) in [
        ("olga", "owner support-leads risk"),
        ("lea", "support-leads"),
        ("ray", "risk"),
        ("rob", "risk legal"),
        ("both", "support-leads risk"),
        ("paul", "policy-editor"),
        ("anna", "auditor"),
    ] {
        roles_of(&world, name, roles);
    }
    world
}

/// Makes a person with these roles, or gives them to who is there.
fn roles_of(world: &World, name: &str, roles: &str) {
    let roles: Vec<String> = roles.split_whitespace().map(str::to_owned).collect();
    let admin = world.admin();
    if roles.is_empty() {
        run(admin.revoke_user(&user(name))).unwrap();
    } else if run(admin.set_roles(&user(name), &roles)).is_err() {
        run(admin.create_user(&user(name), &roles)).unwrap();
    }
}

/// One deed: `lea` says yes, `lea!` says no, `lea=risk legal` gets other roles, `lea=` is revoked.
fn deed(world: &World, intent: &Intent, deed: &str) -> Result<(), String> {
    let admin = world.admin();
    if let Some((name, roles)) = deed.split_once('=') {
        roles_of(world, name, roles);
        return Ok(());
    }
    let done = match deed.strip_suffix('!') {
        Some(name) => run(admin.deny(approval(intent), &user(name), "no")),
        None => run(admin.approve(approval(intent), &user(deed), None)),
    };
    done.map(drop).map_err(|error| error.to_string())
}

/// What the deeds come to: where the intent stands, or what the last one was told.
fn told(world: &World, intent: &Intent, deeds: &str) -> String {
    for next in deeds.split(", ") {
        if let Err(message) = deed(world, intent, next) {
            return message;
        }
    }
    world.state(&intent.id).as_str().to_owned()
}

#[test]
fn each_reason_takes_its_own() {
    #[rustfmt::skip]
    let table = [
        // dollars  deeds                             what it comes to
        (2_000,     "lea",                            "approved"),
        (2_000,     "both",                           "approved"),
        (2_000,     "ray",                            "ray is risk and cannot approve this: it takes 1 person with the role support-leads"),
        (2_000,     "mona",                           "mona is owner and cannot approve this: it takes 1 person with the role support-leads"),
        (2_000,     "olga",                           "olga owns agent bot: somebody else has to decide"),
        (2_000,     "olga!",                          "olga owns agent bot: somebody else has to decide"),
        (2_000,     "paul",                           "paul is policy-editor and may not decide: that takes an owner or a reviewer role"),
        (2_000,     "anna!",                          "anna is auditor and may not decide: that takes an owner or a reviewer role"),
        (2_000,     "ray!",                           "denied"),
        (5_001,     "lea",                            "pending_approval"),
        (5_001,     "lea, ray",                       "pending_approval"),
        (5_001,     "lea, ray, rob",                  "approved"),
        (5_001,     "ray, rob",                       "pending_approval"),
        (5_001,     "both, ray",                      "approved"),
        (5_001,     "both, lea",                      "pending_approval"),
        (5_001,     "both, lea, rob",                 "approved"),
        (5_001,     "ray, ray",                       "ray has approved this already: it still takes 1 person with the role support-leads, and 1 person with the role legal or risk"),
        (5_001,     "both, both",                     "both has approved this already: it still takes 1 person with the role legal or risk"),
        (5_001,     "lea, ray, rob!",                 "denied"),
        (5_001,     "lea, ray!, rob",                 "the request is denied: there is nothing left to decide"),
        (5_001,     "lea, ray, rob, both",            "the request is approved: there is nothing left to decide"),
        // a vote counts with the roles that its voter had and has
        (5_001,     "lea, ray, ray=, rob",            "pending_approval"),
        (5_001,     "lea, ray, ray=, rob, both",      "approved"),
        (5_001,     "lea, ray, ray=viewer, rob",      "pending_approval"),
        (5_001,     "lea, ray, ray=legal, rob",       "pending_approval"),
        (5_001,     "lea, ray, ray=legal, rob, ray",  "approved"),
        (5_001,     "lea, ray, ray=, ray=risk, rob",  "approved"),
        (5_001,     "lea, lea=risk, lea, rob",        "pending_approval"),
        (5_001,     "lea, lea=risk support-leads, lea, rob", "approved"),
    ];
    for (minor, deeds, expected) in table {
        let world = world();
        let intent = world.intent(&format!("k ch_1 {minor}"));
        assert_eq!(intent.state, State::PendingApproval);
        let found = told(&world, &intent, deeds);
        assert_eq!(found, expected, "{minor}: {deeds}");
        assert_eq!(run(gate_authority::invariants(&world.authority)).unwrap(), vec![], "{deeds}");
    }
}

/// What holds when the approval is used: reviewers and policy of that moment.
#[test]
fn votes_are_counted_again_when_they_are_used() {
    let with = |from: &str, to: &str| {
        assert!(POLICY.contains(from));
        POLICY.replace(from, to)
    };
    type Meanwhile<'a> = (&'a str, Option<String>);
    let text = Some;
    #[rustfmt::skip]
    let table: [(Meanwhile<'_>, &str); 13] = [
        // deeds                  another policy                                            asked again
        (("lea=support-leads",    None),                                                    "settled again"),
        (("lea=",                 None),                                                    "denied approval_stale again"),
        (("ray=viewer",           None),                                                    "denied approval_stale again"),
        (("ray=legal",            None),                                                    "denied approval_stale again"),
        (("ray=risk legal",       None),                                                    "settled again"),
        (("mona=owner",           text(with("owner = \"olga\"", "owner = \"lea\""))),       "denied approval_stale again"),
        (("mona=owner",           text(with("owner = \"olga\"", "owner = \"paul\""))),      "settled again"),
        (("mona=owner",           text(with("approvals_required = 2", "approvals_required = 3"))), "denied approval_stale again"),
        (("mona=owner",           text(with("approvals_required = 2", "approvals_required = 1"))), "settled again"),
        (("mona=owner",           text(with("\"risk\", \"legal\"", "\"legal\""))),          "denied approval_stale again"),
        (("mona=owner",           text(with("amount_over = \"50.00\"", "amount_over = \"60.00\""))), "settled again"),
        (("mona=owner",           text(with("control = \"require_approval\"\nreviewers = [\"risk\", \"legal\"]\napprovals_required = 2", "control = \"block\""))), "denied approval_stale again"),
        (("mona=owner",           text(with("daily_cap = \"500.00\"", "daily_cap = \"50.00\""))), "denied approval_stale again"),
    ];
    for ((deeds, policy), expected) in table {
        let world = world();
        let intent = world.intent("k ch_1 5500");
        assert_eq!(told(&world, &intent, "lea, ray, rob"), "approved");
        deed(&world, &intent, deeds).unwrap();
        if let Some(policy) = &policy {
            world.apply(policy);
        }
        assert_eq!(world.ask("k ch_1 5500"), expected, "{deeds} {policy:?}");
        let stored = world.stored(&intent.id);
        if stored.state == State::Denied {
            assert!(codes(&stored).len() > 1, "it says why: {:?}", codes(&stored));
            assert_eq!(world.spent(), "0.00 USD");
        }
        assert_eq!(run(gate_authority::invariants(&world.authority)).unwrap(), vec![], "{deeds}");
    }
}

/// Both versions of the policy stand in the record: the one that asked, and the one that paid.
#[test]
fn both_versions_are_recorded() {
    let world = world();
    let intent = world.intent("k ch_1 2500");
    assert_eq!(told(&world, &intent, "lea"), "approved");
    world.apply(&POLICY.replace("500.00", "400.00"));
    assert_eq!(world.ask("k ch_1 2500"), "settled again");
    let entries = world.audit();
    let version = |action: &str| {
        let of = |row: &&gate_store::AuditRow| {
            row.entry.action == action && row.entry.subject == intent.id.as_str()
        };
        let row = entries.iter().find(of).unwrap();
        let details: serde_json::Value = serde_json::from_str(&row.entry.details).unwrap();
        details["policyVersion"].as_u64().unwrap()
    };
    assert_eq!(version("intent.pending_approval") + 1, version("intent.submitted"));
    // Each vote has an entry of its own, with who voted in which role.
    let votes = entries.iter().filter(|row| row.entry.action == "approval.voted");
    let votes: Vec<&str> = votes.map(|row| row.entry.subject.as_str()).collect();
    assert_eq!(votes, [approval(&intent).as_str()]);
}

/// What is altered beside the gateway is not what was approved: neither voted on nor used.
#[test]
fn what_is_approved_is_what_was_shown() {
    type Alter = fn(&mut Intent);
    let table: [(&str, Alter); 7] = [
        ("nothing", |_| {}),
        ("the amount", |intent| {
            intent.amount = gate_money::Amount::new(2501, gate_money::Currency::USD).unwrap();
            intent.wanted = Wanted::Minor(2501);
        }),
        ("the currency", |intent| {
            intent.amount = gate_money::Amount::new(2500, gate_money::Currency::EUR).unwrap();
        }),
        ("a reason's code", |i| i.reasons[0].code = gate_core::ReasonCode::CustomerUnknown),
        ("whom it takes", |i| i.reasons[0].requires.as_mut().unwrap().roles.clear()),
        ("how many", |i| i.reasons[0].requires.as_mut().unwrap().people = 2),
        ("the digest", |i| i.approval.as_mut().unwrap().digest = "00".to_owned()),
    ];
    for (name, alter) in table {
        let altered = |world: &World, intent: &Intent| {
            let mut changed = world.stored(&intent.id);
            alter(&mut changed);
            let was = changed.state;
            write(world, vec![Write::UpdateIntent { was, intent: Box::new(changed) }]);
        };
        let good = name == "nothing";
        let before = world();
        let intent = before.intent("k ch_1 2500");
        altered(&before, &intent);
        let voted = deed(&before, &intent, "lea");
        assert_eq!(voted.is_ok(), good, "{name}: {voted:?}");
        deed(&before, &intent, "ray!").unwrap_or_else(|error| assert!(good, "{error}"));

        let after = world();
        let intent = after.intent("k ch_1 2500");
        deed(&after, &intent, "lea").unwrap();
        altered(&after, &intent);
        let execute = |world: &World| {
            let claim = run(gate_core::Authority::claim(
                &*world.authority,
                gate_core::Work::One(intent.id.clone()),
                1,
            ));
            let claim = claim.unwrap().pop().unwrap();
            run(gate_core::Authority::execute(&*world.authority, &claim, &world.charge("ch_1")))
        };
        let executed = execute(&after).unwrap().intent;
        assert_eq!(executed.state == State::Submitted, good, "{name}: {:?}", executed.state);
        if !good {
            assert_eq!((executed.state, codes(&executed)[0]), (State::Denied, "approval_stale"));
            assert_eq!(after.till.sent().len(), 0, "{name}");
        }
    }
}

/// An approval is used up by a refund, not by an attempt that did nothing; with who may say yes by
/// then.
#[test]
fn an_attempt_that_did_nothing_uses_nothing_up() {
    for (deeds, answer) in [("lea=support-leads", "settled"), ("lea=", "denied approval_stale")] {
        let world = world();
        let intent = world.intent("k ch_1 2500");
        deed(&world, &intent, "lea").unwrap();
        for _ in 0..2 {
            world.till.script(&[crate::till::Step::Forbidden]);
            assert!(world.ask("k ch_1 2500").starts_with("not_executed"));
        }
        deed(&world, &intent, deeds).unwrap();
        assert_eq!(world.ask("k ch_1 2500"), answer, "{deeds}");
        assert_eq!(run(gate_authority::invariants(&world.authority)).unwrap(), vec![], "{deeds}");
    }
    // Past its time people are asked again.
    let world = world();
    let intent = world.intent("k ch_1 2500");
    deed(&world, &intent, "lea").unwrap();
    world.till.script(&[crate::till::Step::Forbidden]);
    world.ask("k ch_1 2500");
    world.clock.advance(25 * HOUR);
    assert_eq!(world.ask("k ch_1 2500"), "pending_approval");
    let anew = world.stored(&intent.id);
    assert_ne!(approval(&anew), approval(&intent));
    assert_eq!(anew.approval.unwrap().votes, vec![]);
    let old = deed(&world, &intent, "lea").unwrap_err();
    assert!(old.contains("nothing left to decide"), "{old}");
}

/// After a person's no the same refund gets it again for a day, until somebody reopens it.
#[test]
fn a_denial_is_remembered_until_it_is_reopened() {
    let world = world();
    let intent = world.intent("k ch_1 2500");
    deed(&world, &intent, "ray!").unwrap();
    for asked in ["k ch_1 2500", "l ch_1 2500", "- ch_1 2500"] {
        assert_eq!(world.ask(asked), "denied approval_denied again", "{asked}");
    }
    assert_eq!(world.ask("m ch_1 2501"), "pending_approval", "another amount");
    let reopen = |name: &str| {
        run(world.admin().reopen(approval(&intent), &user(name), Some("photo came")))
            .map(drop)
            .map_err(|error| error.to_string())
    };
    #[rustfmt::skip]
    let table = [
        ("paul", Err("paul is policy-editor and may not decide: that takes an owner or a reviewer role")),
        ("olga", Err("olga owns agent bot: somebody else has to decide")),
        ("lea",  Ok(())),
        ("rob",  Ok(())),
    ];
    for (name, expected) in table {
        assert_eq!(reopen(name), expected.map_err(str::to_owned), "{name}");
    }
    let kept = world.stored(&intent.id);
    assert_eq!((kept.state, codes(&kept)[0]), (State::Denied, "approval_denied"));
    assert_eq!(kept.approval.unwrap().state, ApprovalState::Denied);
    assert_eq!(world.ask("k ch_1 2500"), "pending_approval", "decided anew");
    assert_eq!(world.ask("l ch_1 2500"), "pending_approval");
    let reopened = world.audit().into_iter().filter(|row| row.entry.action == "approval.reopened");
    assert_eq!(reopened.count(), 1, "once");
    assert_eq!(run(gate_authority::invariants(&world.authority)).unwrap(), vec![]);
    // Only a person's no is reopened.
    let pending = world.stored(&world.intents().last().unwrap().id);
    let error = run(world.admin().reopen(approval(&pending), &user("lea"), None)).unwrap_err();
    assert!(error.to_string().contains("no person denied it"), "{error}");
}

/// What staff ask for is always put before a person.
#[test]
fn a_tool_of_staff_always_asks() {
    let world = world();
    let mut ask = crate::world::ask("k ch_1 100");
    ask.tool = Tool::FinanceRefund;
    let attempt = world.attempt();
    let charge = world.charge("ch_1");
    let decided =
        run(gate_core::Authority::decide(&*world.authority, &world.key, &ask, &charge, &attempt));
    let intent = decided.unwrap().intent;
    assert_eq!((intent.state, codes(&intent)), (State::PendingApproval, vec!["connector_write"]));
    assert_eq!(told(&world, &intent, "lea"), "approved");
}

/// Who still has to say yes, and who could.
#[test]
fn what_is_missing_is_shown() {
    let world = world();
    let intent = world.intent("k ch_1 5500");
    let shown = |world: &World| {
        let waiting = run(world.admin().approval(approval(&intent))).unwrap();
        let need = |need: &gate_authority::Need| {
            let could: Vec<&str> = need.could.iter().map(|user| user.as_str()).collect();
            format!("{}: {} of {}", need.reason.code.as_str(), need.missing, could.join(" "))
        };
        waiting.needs.iter().map(need).collect::<Vec<_>>().join(", ")
    };
    #[rustfmt::skip]
    let table = [
        // deeds         what is shown
        ("mona=owner",   "approval_threshold: 1 of both lea rita, rule: 2 of both ray rob"),
        ("ray",          "approval_threshold: 1 of both lea rita, rule: 1 of both rob"),
        ("both",         "approval_threshold: 0 of lea rita, rule: 0 of rob"),
        ("both=",        "approval_threshold: 1 of lea rita, rule: 1 of rob"),
    ];
    for (n, (deeds, expected)) in table.into_iter().enumerate() {
        deed(&world, &intent, deeds).unwrap();
        if n < 3 {
            assert_eq!(shown(&world), expected, "{deeds}");
        } else {
            assert_eq!(shown(&world), expected, "{deeds}");
            assert_eq!(world.ask("k ch_1 5500"), "denied approval_stale again");
        }
    }
}
