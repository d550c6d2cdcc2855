//! Gateways and their credentials. A secret is made here, printed once, and kept nowhere.

use gate_api::rfc3339;
use gate_burnbound::GatewaySecret;
use gate_core::{AgentName, Ids, Timestamp};
use gate_store::GatewayRow;
use serde_json::json;

use super::{Failed, Work, failed, lines, required, usage};
use crate::serve::{authority_key, master_key};

impl Work<'_> {
    pub(super) async fn create_gateway(&self) -> Result<(), Failed> {
        let name = AgentName::parse(required(self.given, "name")).map_err(usage("the name"))?;
        let secret = self.new_secret()?;
        let made = self.admin.create_gateway(&name, secret.public_key()).await;
        self.show_secret(&made.map_err(failed)?, &secret);
        Ok(())
    }

    pub(super) async fn rotate_gateway(&self) -> Result<(), Failed> {
        let (name, now) = (required(self.given, "gateway"), self.given.get_flag("now"));
        let secret = self.new_secret()?;
        let made = self.admin.rotate_gateway(name, secret.public_key(), now).await;
        self.show_secret(&made.map_err(failed)?, &secret);
        self.out.say(if now {
            "The old secret is refused from now on."
        } else {
            "The old secret is taken for 24 more hours; after a leak use --now."
        });
        Ok(())
    }

    pub(super) async fn revoke_gateway(&self) -> Result<(), Failed> {
        let revoked = self.admin.revoke_gateway(required(self.given, "gateway")).await;
        let row = revoked.map_err(failed)?;
        self.out.either(&gateway_json(&row), || {
            format!("{} is revoked; another gateway of its account goes on with its work", row.name)
        });
        Ok(())
    }

    pub(super) async fn list_gateways(&self) -> Result<(), Failed> {
        let rows = self.admin.gateways().await.map_err(failed)?;
        let all: Vec<_> = rows.iter().map(gateway_json).collect();
        self.out.either(&all, || {
            lines(&rows, |row| {
                let state = row.revoked_at.map_or("active", |_| "revoked");
                let keys: Vec<String> = row
                    .keys
                    .iter()
                    .map(|key| {
                        let used = key.last_used_at.map_or("never".to_owned(), rfc3339);
                        let until = key.expires_at.map(|at| format!(", until {}", rfc3339(at)));
                        let until = until.unwrap_or_default();
                        format!("key {} last used {used}{until}", key.version)
                    })
                    .collect();
                format!("{}  {}  {state}  {}", row.id, row.name, keys.join("; "))
            })
        });
        if rows.is_empty() {
            self.out.say("No gateways: `gateway create NAME` makes one.");
        }
        Ok(())
    }

    fn new_secret(&self) -> Result<GatewaySecret, Failed> {
        let master = master_key(self.store, self.ids).map_err(Failed::Work)?;
        let authority = authority_key(&master).map_err(Failed::Work)?;
        let mut seed = [0; 32];
        self.ids.fill(&mut seed);
        GatewaySecret::make(&seed, &authority.public_key())
            .map_err(|fault| Failed::Work(fault.to_string()))
    }

    fn show_secret(&self, row: &GatewayRow, secret: &GatewaySecret) {
        let (id, secret) = (row.id.as_str(), secret.expose());
        self.out.either(&json!({ "id": id, "secret": secret }), || format!("{id}\n{secret}"));
        self.out.say(&format!(
            "Gateway {} ({id}). Its secret is shown this once: put it into a file, and give the \
             gateway BURNBOUND_GATEWAY_ID={id} and BURNBOUND_GATEWAY_SECRET_FILE.",
            row.name
        ));
    }
}

fn gateway_json(row: &GatewayRow) -> serde_json::Value {
    let time = |at: Option<Timestamp>| at.map(rfc3339);
    let keys: Vec<_> = row
        .keys
        .iter()
        .map(|key| {
            json!({
                "version": key.version,
                "createdAt": rfc3339(key.created_at),
                "expiresAt": time(key.expires_at),
                "lastUsedAt": time(key.last_used_at),
            })
        })
        .collect();
    json!({
        "id": row.id.as_str(),
        "name": row.name.as_str(),
        "createdAt": rfc3339(row.created_at),
        "revokedAt": time(row.revoked_at),
        "keys": keys,
    })
}
