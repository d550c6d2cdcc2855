//! The audit log: verified, exported, and what is personal in it emptied.

use std::io::{BufWriter, Write as _};
use std::sync::Arc;

use clap::ArgMatches;
use gate_api::rfc3339;
use gate_authority::{AuditAnchor, AuditReport, Emptying, LocalAuthority};
use gate_core::{ChargeId, Timestamp, UserName};
use gate_store::{AuditField, AuditRange, AuditRow};
use serde::Serialize;
use serde_json::json;

use super::admin::{failed, required, text, usage, user_name};
use super::{Failed, Output, faults};
use crate::config::{self, Flags, Lookup};
use crate::serve::{self, Seams};

/// Entries that are read at once.
const PART: u32 = 1000;

/// Verifies the log; ends with code 3 when something is wrong. With `--online` the newest refunds
/// at Stripe are asked for the heads that they carry.
pub(super) async fn verify(
    given: &ArgMatches,
    lookup: Arc<dyn Lookup>,
    out: &Output,
) -> Result<(), Failed> {
    let broken = |error: gate_core::AuthorityError| Failed::Work(error.to_string());
    let report = if given.get_flag("online") {
        let mut loaded = config::load(lookup.as_ref(), &Flags::from_matches(given))
            .map_err(|found| faults(&found))?;
        if loaded.config.stripe.key.is_none() {
            let told = "--online needs a Stripe key: set STRIPE_SECRET_KEY_FILE";
            return Err(Failed::Usage(told.to_owned()));
        }
        // Port 0: verifying must not stand in the way of a running gateway.
        loaded.config.server.listen.set_port(0);
        let timeout = loaded.config.stripe.timeout;
        let serving =
            serve::start(loaded.config, lookup, Seams::default()).await.map_err(Failed::Work)?;
        let Some(embedded) = serving.gateway.decider.embedded() else {
            let told = "the records are with the authority at BURNBOUND_API: verify them there";
            return Err(Failed::Usage(told.to_owned()));
        };
        let (authority, stripe) = (&embedded.authority, serving.gateway.stripe.as_ref());
        let found = authority.audit_anchors(stripe, timeout).await.map_err(broken)?;
        out.say(&format!("The refunds of {} charges were listed at Stripe.", found.looked_at));
        if let Some(why) = &found.left_out {
            out.say(&format!("Others were not looked at: {why}."));
        }
        authority.verify_audit(&found.anchors).await.map_err(broken)?
    } else {
        let authority = super::admin::opened(given, lookup.as_ref(), out).await?;
        let none: [AuditAnchor; 0] = [];
        authority.verify_audit(&none).await.map_err(broken)?
    };
    tell(&report, out);
    if report.findings.is_empty() { Ok(()) } else { Err(Failed::Faults) }
}

fn tell(report: &AuditReport, out: &Output) {
    let findings: Vec<_> = report
        .findings
        .iter()
        .map(|finding| json!({ "entry": finding.entry, "what": finding.what }))
        .collect();
    let view = json!({
        "entries": report.head.n,
        "head": report.head.hex(),
        "anchors": report.anchors,
        "findings": findings,
        "untold": report.untold,
        "backInTime": report.back_in_time.map(|(first, count)| json!({ "first": first, "count": count })),
    });
    out.either(&view, || {
        let lines = report.findings.iter().map(|finding| format!("fault  {}", finding.what));
        let holds = format!(
            "{} entries hold, and {} heads outside of the log agree; head {}",
            report.head.n,
            report.anchors,
            report.head.hex()
        );
        let lines: Vec<String> = lines.collect();
        if lines.is_empty() { holds } else { lines.join("\n") }
    });
    if report.untold > 0 {
        out.say(&format!("{} more faults are not told.", report.untold));
    }
    if let Some((first, count)) = report.back_in_time {
        out.say(&format!(
            "{count} entries are older than the one before them, entry {first} the first: a clock \
             was set back."
        ));
    }
    if !report.findings.is_empty() {
        out.say(
            "Somebody changed the store beside the gateway. Stop it, keep a copy of the store, and \
             compare it with a backup and with the refunds at Stripe.",
        );
    }
}

/// One entry, as it is exported. The order of the fields is that of the columns.
#[derive(Serialize)]
struct Exported<'a> {
    n: u64,
    at: String,
    #[serde(rename = "atMillis")]
    at_millis: i64,
    actor: &'a str,
    action: &'a str,
    subject: &'a str,
    details: &'a str,
    salt: String,
    marks: String,
    digest: String,
    hash: String,
}

const COLUMNS: &str = "n,at,atMillis,actor,action,subject,details,salt,marks,digest,hash";

impl<'a> Exported<'a> {
    fn new(row: &'a AuditRow) -> Self {
        let entry = &row.entry;
        Self {
            n: row.n,
            at: rfc3339(entry.at),
            at_millis: entry.at.millis(),
            actor: &entry.actor,
            action: &entry.action,
            subject: &entry.subject,
            details: &entry.details,
            salt: hex(&entry.salt),
            marks: hex(&row.marks),
            digest: hex(&row.digest),
            hash: hex(&row.hash),
        }
    }

    fn csv(&self) -> String {
        let cells: [&str; 11] = [
            &self.n.to_string(),
            &self.at,
            &self.at_millis.to_string(),
            self.actor,
            self.action,
            self.subject,
            self.details,
            &self.salt,
            &self.marks,
            &self.digest,
            &self.hash,
        ];
        cells.map(cell).join(",")
    }
}

/// A cell that no spreadsheet takes for a formula: one that begins like one, or with an
/// apostrophe, is put behind an apostrophe.
fn cell(text: &str) -> String {
    let risky =
        text.starts_with(['=', '+', '-', '@', '\t', '\r', '\'']) && text.parse::<i64>().is_err();
    let text = if risky { format!("'{text}") } else { text.to_owned() };
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes the log to standard output, entry by entry.
pub(super) async fn export(
    given: &ArgMatches,
    lookup: Arc<dyn Lookup>,
    out: &Output,
) -> Result<(), Failed> {
    let csv = text(given, "format") == Some("csv");
    let since = text(given, "since").map(time).transpose()?;
    let until = text(given, "until").map(time).transpose()?;
    let authority = super::admin::opened(given, lookup.as_ref(), out).await?;
    match write_all(&authority, csv, since, until).await? {
        Ok(()) => Ok(()),
        // A reader that has enough goes away.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failed::Work(format!("the export cannot be written: {error}"))),
    }
}

async fn write_all(
    authority: &LocalAuthority,
    csv: bool,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
) -> Result<std::io::Result<()>, Failed> {
    let mut to = BufWriter::new(std::io::stdout());
    if csv && let Err(error) = writeln!(to, "{COLUMNS}") {
        return Ok(Err(error));
    }
    let mut after = 0;
    loop {
        let part = authority.audit(AuditRange { after, limit: PART }).await;
        let part = part.map_err(|error| Failed::Work(error.to_string()))?;
        let Some(last) = part.last() else { return Ok(to.flush()) };
        after = last.n.max(1);
        let asked = |row: &&AuditRow| {
            since.is_none_or(|since| row.entry.at >= since)
                && until.is_none_or(|until| row.entry.at < until)
        };
        for row in part.iter().filter(asked) {
            let exported = Exported::new(row);
            let line = if csv {
                exported.csv()
            } else {
                serde_json::to_string(&exported).unwrap_or_default()
            };
            if let Err(error) = writeln!(to, "{line}") {
                return Ok(Err(error));
            }
        }
    }
}

/// A moment, or the beginning of a day in UTC.
fn time(text: &str) -> Result<Timestamp, Failed> {
    gate_api::parse_time(text).ok_or_else(|| {
        Failed::Usage(format!(
            "`{text}` is no time: write a day, such as 2026-10-30, or a moment, such as \
             2026-10-30T14:05:00Z"
        ))
    })
}

/// Empties what is personal, for good.
pub(super) async fn redact(
    admin: &gate_authority::Admin<'_>,
    given: &ArgMatches,
    user: Option<&UserName>,
    out: &Output,
) -> Result<(), Failed> {
    let user = user.ok_or_else(|| Failed::Usage("name yourself with --as USER".to_owned()))?;
    let what = match (text(given, "charge"), text(given, "user"), given.get_one::<u64>("entry")) {
        (Some(charge), ..) => {
            Emptying::Charge(ChargeId::parse(charge).map_err(usage("the charge"))?)
        }
        (None, Some(name), _) => Emptying::User(user_name(name)?),
        (None, None, entry) => {
            let named = given.get_many::<String>("field").unwrap_or_default();
            let fields = named.filter_map(|name| AuditField::parse(name)).collect();
            Emptying::Entry { n: entry.copied().unwrap_or_default(), fields }
        }
    };
    let count = admin.empty(&what, user, required(given, "note")).await.map_err(failed)?;
    let view = json!({ "entries": count.entries, "intents": count.intents });
    out.either(&view, || {
        format!("emptied: {} audit entries, {} intents", count.entries, count.intents)
    });
    out.say(if count.entries == 0 && count.intents == 0 {
        "There was nothing left to empty."
    } else {
        "Copies of the store, and exports, still have what was emptied: delete those too."
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_that_no_spreadsheet_computes() {
        let table = [
            ("agent:agt_1", "agent:agt_1"),
            ("", ""),
            ("-5", "-5"),
            ("=1+1", "'=1+1"),
            ("+1+1", "'+1+1"),
            ("-1+1", "'-1+1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\t=1"),
            ("\r=1", "\"'\r=1\""),
            ("'quoted'", "''quoted'"),
            ("=\"a\",b", "\"'=\"\"a\"\",b\""),
            ("{\"n\":1,\"m\":2}", "\"{\"\"n\"\":1,\"\"m\"\":2}\""),
            ("two\nlines", "\"two\nlines\""),
        ];
        for (text, expected) in table {
            assert_eq!(cell(text), expected, "{text:?}");
        }
    }
}
