//! Customers: enough to charge them and to know how old they are.

use serde_json::{Map, Value, json};

use crate::{
    account::{Call, lay_over},
    cards::Card,
    failure::Failure,
    form::Metadata,
    list::{Object, PAGE_PARAMS},
    search::{Fields, Kind, Query},
};

/// Text fields that are kept as they come.
const TEXTS: [&str; 4] = ["description", "email", "name", "phone"];

/// What customers can be searched by, besides metadata.
const SEARCHED: Fields = &[
    ("created", Kind::Number),
    ("email", Kind::Text),
    ("name", Kind::Words),
    ("phone", Kind::Text),
];

/// A customer.
#[derive(Clone, Debug)]
pub(crate) struct Customer {
    pub(crate) id: String,
    pub(crate) card: Option<Card>,
    pub(crate) created: i64,
    pub(crate) metadata: Metadata,
    /// The text fields, and what the control API said about others.
    pub(crate) fields: Map<String, Value>,
}

impl Object for Customer {
    const NOUN: &'static str = "customer";

    fn id(&self) -> &str {
        &self.id
    }

    fn created(&self) -> i64 {
        self.created
    }

    fn render(&self) -> Value {
        let mut rendered = json!({
            "id": self.id,
            "object": "customer",
            "address": null,
            "balance": 0,
            "created": self.created,
            "currency": null,
            "default_source": null,
            "delinquent": false,
            "description": null,
            "discount": null,
            "email": null,
            "invoice_settings": {
                "custom_fields": null, "default_payment_method": null, "footer": null,
                "rendering_options": null,
            },
            "livemode": false,
            "metadata": self.metadata,
            "name": null,
            "next_invoice_sequence": 1,
            "phone": null,
            "preferred_locales": [],
            "shipping": null,
            "tax_exempt": "none",
            "test_clock": null,
        });
        lay_over(&mut rendered, &self.fields);
        rendered
    }
}

impl Call<'_> {
    pub(crate) fn create_customer(&mut self, _id: &str) -> Result<Value, Failure> {
        let params = self.params;
        params.check_known(&[&TEXTS[..], &["metadata[]", "payment_method", "source"]].concat())?;
        let mut fields = Map::new();
        for name in TEXTS {
            if let Some(text) = params.text(name)? {
                fields.insert(name.to_owned(), json!(text));
            }
        }
        let metadata = params.merge_metadata(&Metadata::new())?;
        let mut card = None;
        for (name, noun) in [("source", "token"), ("payment_method", "PaymentMethod")] {
            if let Some(token) = params.text(name)? {
                let found = Card::by_token(token);
                card = Some(found.ok_or_else(|| Failure::unknown(noun, token, name))?);
            }
        }
        let id = self.random.id("cus_", 14);
        let customer = Customer { id, card, created: self.now_secs, metadata, fields };
        let rendered = customer.render();
        self.account.customers.add(customer);
        Ok(rendered)
    }

    pub(crate) fn read_customer(&mut self, id: &str) -> Result<Value, Failure> {
        self.params.check_known(&[])?;
        Ok(self.account.customers.need(id, "id")?.render())
    }

    pub(crate) fn list_customers(&mut self, _id: &str) -> Result<Value, Failure> {
        self.params.check_known(&[&PAGE_PARAMS[..], &["email"]].concat())?;
        let email = self.params.text("email")?;
        self.account.customers.page("/v1/customers", self.params, |customer| {
            email.is_none_or(|wanted| {
                customer.fields.get("email").and_then(Value::as_str) == Some(wanted)
            })
        })
    }

    pub(crate) fn search_customers(&mut self, _id: &str) -> Result<Value, Failure> {
        self.params.check_known(&["limit", "page", "query"])?;
        let query = Query::parse(self.params.required("query")?, "customers", SEARCHED)?;
        let found = |customer: &Customer| query.matches(&customer.render());
        self.account.customers.search("/v1/customers/search", self.params, found)
    }
}
