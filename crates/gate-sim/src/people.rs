//! What agents and people do, one task for each operation of the plan.

use std::pin::pin;
use std::sync::{Arc, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::{Either, join, select};
use gate_authority::{Actor, Admin, AdminError, IntentList, LocalAuthority, Whom};
use gate_core::{
    ActionError, Actions as _, AgentKey, Answer, Ask, AuthorityError, Denier, IdempotencyKey,
    Intent, IntentFilter, IntentId, Justification, Records, RefundId, Requirement, State, Target,
    TeamName, Timestamp, Tool, UserName, Wanted,
};
use gate_store::{IntentBy, Judge, KeyHash, Reads, Snapshot, Store as _, Write};
use serde_json::json;

use crate::answers::Asked;
use crate::calls::Request;
use crate::credentials::{revokes, rotates};
use crate::draw::Draw;
use crate::executor::{Node, Slot, hand_over};
use crate::faults::{Class, Place};
use crate::plan::{AGENTS, Act, Asking, Op, Rules, Secret, TEAM, Verdict, of_attempt};
use crate::world::World;

type Answered = Result<Answer, ActionError>;

/// Does one operation when its time has come: at the desk, or at a gateway, with which it may die.
pub(crate) async fn does(world: Arc<World>, op: Op) {
    world.handle.sleep_until(op.at_ms).await;
    world.witness.seen().active();
    world.bell.ring();
    world.witness.line(|| format!("op:{} {:?}", op.n, op.act));
    let which = op.n as usize % 3;
    let own = matches!(op.act, Act::Withdraw { .. } | Act::Look { .. });
    let place = match &world.wire {
        // An agent's own calls go through a gateway, with which they may die.
        Some(_) if own => {
            let which = op.n as usize % 2;
            world.gateway(which).map(|_| (Arc::clone(&world.desk), Node::GATEWAYS[which]))
        }
        _ if which > 1 || matches!(op.act, Act::Ask(_)) => None,
        Some(wire) => wire.authority(which).map(|at| (at, Node::REPLICAS[which])),
        None => {
            let here = world.gateway(which).and_then(|gateway| gateway.here.clone());
            here.map(|at| (at, Node::GATEWAYS[which]))
        }
    };
    match place {
        Some((at, node)) => world.handle.spawn(node, acts(Arc::clone(&world), op, at)),
        None => {
            let at = Arc::clone(&world.desk);
            acts(world, op, at).await;
        }
    }
}

/// Where an agent reads and withdraws: at the authority at hand, or through a gateway that asks
/// elsewhere.
fn records(world: &World, at: &Arc<LocalAuthority>, op: u64) -> Option<Arc<dyn Records>> {
    if world.wire.is_none() {
        return Some(Arc::<LocalAuthority>::clone(at));
    }
    world.gateway(op as usize % 2).map(|gateway| Arc::clone(&gateway.records))
}

async fn acts(world: Arc<World>, op: Op, at: Arc<LocalAuthority>) {
    let admin = Admin::new(&at, Actor::cli("sim", None));
    let done = match &op.act {
        Act::Ask(asking) => {
            asks(&world, op.n, asking).await;
            Ok(())
        }
        Act::Withdraw { agent, pick } => match records(&world, &at, op.n) {
            Some(records) => withdraws(&world, &at, records.as_ref(), *agent, *pick).await,
            None => Ok(()),
        },
        Act::Look { agent } => match records(&world, &at, op.n) {
            Some(records) => looks(&world, records.as_ref(), *agent).await,
            None => Ok(()),
        },
        Act::Review { pick, user, verdict } => reviews(&world, &at, *pick, user, *verdict).await,
        Act::ApplyPolicy(rules) => admin.apply_policy(&rules.text()).await.map(|_| ()),
        Act::Stop { agent } => admin.stop(whom(*agent), None).await.map(|_| ()),
        Act::Resume { agent } => admin.resume(whom(*agent), None).await.map(|_| ()),
        Act::StopTeam => admin.stop(Whom::Team(&team()), None).await.map(|_| ()),
        Act::ResumeTeam => admin.resume(Whom::Team(&team()), None).await.map(|_| ()),
        Act::RotateGateway { gateway, at_once, file_first, apart_ms } => {
            rotates(&world, &at, *gateway, *at_once, *file_first, *apart_ms).await
        }
        Act::RevokeGateway { gateway, back_ms } => revokes(&world, &at, *gateway, *back_ms).await,
        Act::Panel { pick, users } => panel(&world, &at, *pick, users).await,
        Act::Seat { user, roles } => seats(&admin, user, roles).await,
        Act::PanelAndUnseat { pick, user } => {
            let before = world.witness.seen().ledger.roles(user);
            let reviewed = panel(&world, &at, *pick, &[user, "rolf"]).await;
            world.handle.sleep(pick % 400).await;
            let _ = seats(&admin, user, &[]).await;
            world.handle.sleep(1000 + pick % 50_000).await;
            let before: Vec<&str> = before.iter().map(String::as_str).collect();
            let _ = seats(&admin, user, &before).await;
            reviewed
        }
        Act::Reopen { pick, user } => reopens(&at, *pick, user).await,
        Act::Tamper { pick } => {
            tampers(&world, *pick);
            Ok(())
        }
        Act::Rotate { agent, at_once } => {
            let rotated = admin.rotate_agent(name(*agent), *at_once).await;
            rotated.map(|(row, key)| world.new_key(&row, key))
        }
        Act::Revoke { agent } => admin.revoke_agent(name(*agent)).await.map(|_| ()),
        Act::Dashboard { charge, minor } => {
            let charge = &world.plan.charges[*charge].id;
            world.stripe.dashboard("/v1/refunds", &format!("charge={charge}&amount={minor}"));
            Ok(())
        }
        Act::Move { pick, status } => {
            if let Some(id) = refund(&world, *pick) {
                let order = json!({ "status": status });
                world.stripe.control("POST", &format!("refunds/{id}"), &order);
                world.stripe.tell();
            }
            Ok(())
        }
        Act::Dispute { charge, status } => {
            let charge = &world.plan.charges[*charge].id;
            let order = json!({ "charge": charge, "status": status });
            world.stripe.control("POST", "disputes", &order);
            Ok(())
        }
        Act::Unmark { pick } => {
            if let Some(id) = refund(&world, *pick) {
                let marks = ["intent", "agent", "key", "usd_micros", "audit"];
                let form: Vec<String> =
                    marks.iter().map(|mark| format!("metadata[burnbound_{mark}]=")).collect();
                world.stripe.dashboard(&format!("/v1/refunds/{id}"), &form.join("&"));
            }
            Ok(())
        }
        Act::ApproveAndStop { pick, agent } => {
            let reviewed = reviews(&world, &at, *pick, "rita", Verdict::Approve).await;
            world.handle.sleep(pick % 400).await;
            let _ = admin.stop(Whom::Agent(name(*agent)), None).await;
            world.handle.sleep(1000 + pick % 50_000).await;
            let _ = admin.resume(Whom::Agent(name(*agent)), None).await;
            reviewed
        }
        Act::Resolve { pick } => resolves(&world, &at, *pick).await,
    };
    if let Err(error) = done {
        let broken = matches!(
            &error,
            AdminError::Authority(AuthorityError::Broken(_)) | AdminError::Policy(_)
        );
        let mut seen = world.witness.seen();
        seen.line(|| format!("op:{} came to nothing: {error}", op.n));
        seen.law("I7", !broken, || format!("op:{}: something is broken: {error}", op.n));
        seen.no_secret(&format!("{error} {error:?}"));
    }
}

fn whom(agent: Option<usize>) -> Whom<'static> {
    agent.map_or(Whom::Everybody, |agent| Whom::Agent(name(agent)))
}

const fn name(agent: usize) -> &'static str {
    AGENTS[agent]
}

/// Asks, waits as long as its patience lasts, and asks again when no answer came.
async fn asks(world: &Arc<World>, op: u64, asking: &Asking) {
    let charge = &world.plan.charges[asking.charge];
    let target = match &charge.payment_intent {
        Some(id) if asking.by_payment_intent => id,
        _ => &charge.id,
    };
    let ask = Ask {
        tool: Tool::StripeRefund,
        target: Target::parse(target).expect("an id"),
        wanted: asking.minor.map_or(Wanted::Full, Wanted::Minor),
        believed_currency: None,
        reason: asking.reason,
        justification: asking
            .justification
            .then(|| Justification::parse(&format!("words of op {op}")).expect("words")),
        key: asking.key.as_ref().map(|key| IdempotencyKey::parse(key).expect("a key")),
        dry_run: asking.dry_run,
    };
    for attempt in 0..=asking.again {
        let mut draw = Draw::of(of_attempt(world.seed, op, attempt), 0, 0);
        let gateway = (asking.gateway + attempt as usize) % 2;
        let secret = secret(world, asking.agent, asking.secret);
        let fault = world.faults.at(Place::Wait, Node::DESK);
        let patience_ms = match fault {
            Some(fault) if fault.class == Class::HangUp => {
                world.witness.seen().faulted(&fault);
                fault.chance % 300
            }
            _ => asking.patience_ms,
        };
        let answer = match sends(world, gateway, secret, ask.clone()) {
            Some(slot) => {
                let timer = world.handle.sleep(patience_ms);
                match select(pin!(slot), pin!(timer)).await {
                    Either::Left((answer, _)) => answer,
                    Either::Right(((), _)) => None,
                }
            }
            None => None,
        };
        world.witness.line(|| format!("op:{op} attempt {attempt}: {}", told(answer.as_ref())));
        let is_final = match &answer {
            Some(Ok(Answer::Intent { intent, .. })) => match intent.state {
                State::NotExecuted => false,
                State::PendingApproval | State::Approved => !draw.permille(700),
                _ => !draw.permille(250),
            },
            Some(Ok(Answer::DryRun(_))) => true,
            Some(Err(error)) => error.retry() == gate_core::Retry::Never,
            None => false,
        };
        if is_final {
            return;
        }
        let refused = matches!(&answer, Some(Ok(Answer::Intent { intent, .. })) if intent.state == State::NotExecuted);
        if refused {
            reacts(world, asking.agent, &mut draw).await;
        }
        world.handle.sleep(*draw.pick(&[10, 500, 2_000, 20_000, 70_000])).await;
        world.witness.seen().active();
    }
}

/// The operator sees that something was not executed, and now and then does something about it
/// before the agent asks again.
async fn reacts(world: &World, agent: usize, draw: &mut Draw) {
    let admin = Admin::new(&world.desk, Actor::cli("sim", None));
    if draw.permille(600) {
        let rules = Rules::of(draw, world.plan.policy.timezone(), world.plan.ways);
        let rules = if draw.permille(600) { rules.asking_a_person() } else { rules };
        let _ = admin.apply_policy(&rules.text()).await;
    } else if draw.permille(200) {
        let _ = admin.stop(Whom::Agent(name(agent)), None).await;
    }
}

fn told(answer: Option<&Answered>) -> String {
    match answer {
        Some(Ok(Answer::Intent { intent, replayed, reported })) => {
            format!(
                "{} {} replayed={replayed} reported={reported}",
                intent.id,
                intent.state.as_str()
            )
        }
        Some(Ok(Answer::DryRun(preview))) => format!("would be {:?}", preview.decision),
        Some(Err(error)) => format!("{}: {error}", error.code()),
        None => "no answer".to_owned(),
    }
}

/// The secret an agent uses.
fn secret(world: &World, agent: usize, which: Secret) -> (usize, AgentKey, KeyHash) {
    let agents = world.agents.lock().unwrap_or_else(PoisonError::into_inner);
    let keys = &agents[agent].keys;
    let place = match which {
        Secret::Newest => keys.len() - 1,
        Secret::Older => keys.len().saturating_sub(2),
    };
    let (key, hash) = keys[place].clone();
    (agent, key, hash)
}

/// Hands a request to a gateway, where it is worked on whatever becomes of whoever asked. The
/// answer is held against the law when it is given, waited for or not.
fn sends(
    world: &Arc<World>,
    gateway: usize,
    (agent, key, hash): (usize, AgentKey, KeyHash),
    ask: Ask,
) -> Option<Slot<Answered>> {
    let core = world.gateway(gateway)?;
    let (give, slot) = hand_over();
    let world_of = Arc::clone(world);
    world.handle.spawn(Node::GATEWAYS[gateway], async move {
        let asked = Asked::begin(&world_of, agent, hash, ask.clone());
        let answer = Request::within(core.refunds.refund(&key, ask)).await;
        asked.answered(&world_of, &answer);
        give.give(answer);
    });
    Some(slot)
}

async fn intents(at: &LocalAuthority) -> Result<Vec<Intent>, AdminError> {
    let admin = Admin::new(at, Actor::cli("sim", None));
    admin.intents(&IntentList { limit: 100, ..IntentList::default() }).await
}

fn pick(among: &[Intent], pick: u64, good: impl Fn(&Intent) -> bool) -> Option<&Intent> {
    let good: Vec<&Intent> = among.iter().filter(|intent| good(intent)).collect();
    (!good.is_empty()).then(|| good[pick as usize % good.len()])
}

async fn withdraws(
    world: &Arc<World>,
    at: &LocalAuthority,
    records: &dyn Records,
    agent: usize,
    chance: u64,
) -> Result<(), AdminError> {
    let all = intents(at).await?;
    let (_, key, _) = secret(world, agent, Secret::Newest);
    let own = world.agents.lock().unwrap_or_else(PoisonError::into_inner)[agent].id.clone();
    let open =
        |i: &Intent| i.agent == own && matches!(i.state, State::PendingApproval | State::Approved);
    if let Some(intent) = pick(&all, chance, open) {
        records.cancel(&key, &intent.id).await?;
    }
    Ok(())
}

async fn looks(world: &Arc<World>, at: &dyn Records, agent: usize) -> Result<(), AdminError> {
    let (_, key, _) = secret(world, agent, Secret::Newest);
    let filter = IntentFilter { limit: 10, ..IntentFilter::default() };
    let page = at.intents(&key, &filter).await?;
    at.budget(&key).await?;
    if let Some(intent) = page.intents.first() {
        at.intent(&key, &intent.id, std::time::Duration::from_secs(2)).await?;
    }
    Ok(())
}

/// A person looks at what is pending and decides one request.
async fn reviews(
    world: &Arc<World>,
    at: &LocalAuthority,
    chance: u64,
    user: &str,
    verdict: Verdict,
) -> Result<(), AdminError> {
    let all = intents(at).await?;
    let Some(intent) = pick(&all, chance, |intent| intent.state == State::PendingApproval) else {
        return Ok(());
    };
    let id = intent.approval.as_ref().map(|approval| approval.id.clone()).expect("an approval");
    let user = UserName::parse(user).expect("a name");
    let admin = Admin::new(at, Actor::cli("sim", Some(&user)));
    match verdict {
        Verdict::Approve => admin.approve(&id, &user, None).await.map(|_| ()),
        Verdict::Deny => admin.deny(&id, &user, "no").await.map(|_| ()),
        Verdict::Both => {
            let (yes, no) =
                join(admin.approve(&id, &user, None), admin.deny(&id, &user, "no")).await;
            // The first yes of two is none yet, and may be followed by a no.
            let approved = yes.as_ref().is_ok_and(|intent| intent.state == State::Approved);
            let both = approved && no.is_ok();
            world.witness.seen().law("F11", !both, || format!("{id} was approved and denied"));
            yes.map(|_| ())
        }
    }
}

fn team() -> TeamName {
    TeamName::parse(TEAM).expect("a name")
}

/// Two people approve the same, one after the other.
async fn panel(
    world: &Arc<World>,
    at: &LocalAuthority,
    chance: u64,
    users: &[&str],
) -> Result<(), AdminError> {
    let all = intents(at).await?;
    let Some(intent) = pick(&all, chance, |intent| intent.state == State::PendingApproval) else {
        return Ok(());
    };
    let id = intent.approval.as_ref().map(|approval| approval.id.clone()).expect("an approval");
    for user in users {
        let user = UserName::parse(user).expect("a name");
        let admin = Admin::new(at, Actor::cli("sim", Some(&user)));
        // The first may have no say, or be enough.
        let _ = admin.approve(&id, &user, None).await;
        world.handle.sleep(chance % 700).await;
    }
    Ok(())
}

async fn seats(admin: &Admin<'_>, user: &str, roles: &[&str]) -> Result<(), AdminError> {
    let user = UserName::parse(user).expect("a name");
    if roles.is_empty() {
        return admin.revoke_user(&user).await.map(|_| ());
    }
    let roles: Vec<String> = roles.iter().map(|role| (*role).to_owned()).collect();
    admin.set_roles(&user, &roles).await.map(|_| ())
}

async fn reopens(at: &LocalAuthority, chance: u64, user: &str) -> Result<(), AdminError> {
    let all = intents(at).await?;
    let denied = |intent: &Intent| intent.denied_by == Some(Denier::Person);
    let Some(intent) = pick(&all, chance, denied) else { return Ok(()) };
    let id = intent.approval.as_ref().map(|approval| approval.id.clone()).expect("an approval");
    let user = UserName::parse(user).expect("a name");
    let admin = Admin::new(at, Actor::cli("sim", Some(&user)));
    admin.reopen(&id, &user, None).await.map(|_| ())
}

/// Writes past the gateway: what reviewers were asked now takes one person, anybody.
fn tampers(world: &World, chance: u64) {
    let ids: Vec<(IntentId, State)> = {
        let seen = world.witness.seen();
        let open = |state| matches!(state, State::PendingApproval | State::Approved);
        let entries = seen.ledger.intents.values().filter(|entry| open(entry.intent.state));
        entries.map(|entry| (entry.intent.id.clone(), entry.intent.state)).collect()
    };
    if ids.is_empty() {
        return;
    }
    let (id, was) = ids[chance as usize % ids.len()].clone();
    let reads = Reads { intent: Some(IntentBy::Id(id.clone())), ..Reads::default() };
    let written = world.store.transact(reads, Arc::new(Tampering(was))).now_or_never();
    assert!(matches!(written, Some(Ok(()))), "{written:?}");
    world.witness.seen().ledger.tampered(&id);
}

struct Tampering(State);

impl Judge for Tampering {
    fn judge(&self, _: Timestamp, seen: &Snapshot) -> Vec<Write> {
        let Some(mut intent) = seen.intent.clone() else { return Vec::new() };
        for reason in &mut intent.reasons {
            if reason.requires.is_some() {
                reason.requires = Some(Requirement::ANYBODY);
                reason.message.push('.');
            }
        }
        vec![Write::UpdateIntent { was: self.0, intent: Box::new(intent) }]
    }
}

/// One of our refunds that has not come back.
fn refund(world: &World, chance: u64) -> Option<String> {
    let seen = world.witness.seen();
    let alive = |status: &str| !["failed", "canceled"].contains(&status);
    let open: Vec<&String> =
        seen.made.iter().filter(|(_, made)| alive(&made.status)).map(|(id, _)| id).collect();
    (!open.is_empty()).then(|| open[chance as usize % open.len()].clone())
}

/// A person looks in Stripe's dashboard and says what was found; that nothing was made, a careful
/// one says only once nothing can be made any more.
pub(crate) async fn resolves(
    world: &Arc<World>,
    at: &LocalAuthority,
    chance: u64,
) -> Result<(), AdminError> {
    let all = intents(at).await?;
    let Some(intent) = pick(&all, chance, |intent| intent.needs_person) else {
        return Ok(());
    };
    let (found, sure) = {
        let seen = world.witness.seen();
        let entry = seen.ledger.intents.get(&intent.id);
        let since_ms = entry.map_or(0, |entry| {
            world.handle.now_ms() - entry.posts.last().map_or(0, |post| post.sent_ms)
        });
        let settles_ms =
            if entry.is_some_and(|entry| entry.answers_500) { 40_000_000 } else { 300_000 };
        let found = entry.and_then(|entry| entry.refund.clone());
        (found.and_then(|id| RefundId::parse(&id).ok()), since_ms > settles_ms)
    };
    // Every other one is too quick.
    if found.is_none() && !sure && !chance.is_multiple_of(2) {
        return Ok(());
    }
    if found.is_none() && !sure {
        let mut seen = world.witness.seen();
        if let Some(entry) = seen.ledger.intents.get_mut(&intent.id) {
            entry.ended_by_mistake = true;
        }
    }
    let user = UserName::parse("rita").expect("a name");
    let admin = Admin::new(at, Actor::cli("sim", Some(&user)));
    admin.resolve(&intent.id, &user, found.as_ref(), "looked it up").await.map(|_| ())
}
