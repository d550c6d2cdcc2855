//! `expand[]`: ids in an answer replaced by the objects they stand for.
//!
//! What is asked for is checked before anything is executed, permissions included, and filled in
//! afterwards.

use serde_json::{Value, json};

use crate::{
    account::Account,
    failure::Failure,
    form::Params,
    keys::{Access, Caller, Resource},
    list::{self, Object},
};

/// How many levels deep Stripe expands.
const DEPTH_MAX: usize = 4;
/// How many refunds an expanded charge shows.
const REFUNDS_SHOWN_MAX: usize = 10;

/// What stands at a place in an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    One(Resource),
    Many(Resource),
}

impl Shape {
    /// What it is about, which is also what its permission is about.
    pub(crate) const fn resource(self) -> Resource {
        match self {
            Self::One(resource) | Self::Many(resource) => resource,
        }
    }

    /// What `field` can be expanded to, if it can.
    fn child(self, field: &str) -> Option<Self> {
        use Resource::{Charges, Customers, Disputes, PaymentIntents, Refunds};
        Some(match (self, field) {
            (Self::Many(resource), "data") => Self::One(resource),
            (Self::One(Refunds | Disputes), "charge")
            | (Self::One(PaymentIntents), "latest_charge") => Self::One(Charges),
            (Self::One(Charges | PaymentIntents), "customer") => Self::One(Customers),
            (Self::One(Charges | Refunds | Disputes), "payment_intent") => {
                Self::One(PaymentIntents)
            }
            (Self::One(Charges), "refunds") => Self::Many(Refunds),
            _ => return None,
        })
    }
}

/// The expansions of a request whose answer has the shape `root`.
pub(crate) fn plan(root: Shape, params: &Params, caller: &Caller) -> Result<Vec<String>, Failure> {
    let paths = params.list("expand")?;
    for path in &paths {
        if path.split('.').count() > DEPTH_MAX {
            let text = format!("You can expand at most {DEPTH_MAX} levels deep: {path}");
            return Err(Failure::invalid(text).param("expand"));
        }
        let mut shape = root;
        for field in path.split('.') {
            shape = shape.child(field).ok_or_else(|| {
                let text = format!("This property cannot be expanded ({path}).");
                Failure::invalid(text).param("expand")
            })?;
            caller.require(shape.resource(), Access::Read)?;
        }
    }
    Ok(paths.into_iter().map(str::to_owned).collect())
}

/// Fills the expansions in.
pub(crate) fn apply(account: &Account, root: Shape, value: &mut Value, paths: &[String]) {
    for path in paths {
        let fields: Vec<&str> = path.split('.').collect();
        fill(account, root, value, &fields);
    }
}

fn fill(account: &Account, shape: Shape, value: &mut Value, fields: &[&str]) {
    let Some((field, rest)) = fields.split_first() else {
        return;
    };
    let Some(child) = shape.child(field) else {
        return;
    };
    if let (Shape::Many(_), Some(Value::Array(members))) = (shape, value.get_mut(*field)) {
        for member in members {
            fill(account, child, member, rest);
        }
        return;
    }
    if matches!(child, Shape::Many(Resource::Refunds)) && value.get(*field).is_none() {
        let refunds = refunds_of(account, value.get("id").and_then(Value::as_str));
        if let Some(fields) = value.as_object_mut() {
            fields.insert((*field).to_owned(), refunds);
        }
    }
    let Some(slot) = value.get_mut(*field) else {
        return;
    };
    if let Some(object) = slot.as_str().and_then(|id| account.render(child.resource(), id)) {
        *slot = object;
    }
    fill(account, child, slot, rest);
}

/// The newest refunds of a charge, which it shows only when they are expanded.
fn refunds_of(account: &Account, charge: Option<&str>) -> Value {
    let Some(charge) = charge else {
        return json!(null);
    };
    let mut data: Vec<Value> = account
        .refunds
        .iter()
        .filter(|refund| refund.charge == charge)
        .map(Object::render)
        .collect();
    data.reverse();
    let more = data.len() > REFUNDS_SHOWN_MAX;
    data.truncate(REFUNDS_SHOWN_MAX);
    list::listed(&format!("/v1/charges/{charge}/refunds"), data, more)
}
