//! What a receiver is told.

use gate_api::{IntentView, rfc3339};
use gate_core::Notice;
use serde_json::json;

/// The same for every attempt at this event, and no other's: of this store by the number, of others
/// by the intent.
pub(crate) fn id(notice: &Notice) -> String {
    format!("msg_{}_{}", notice.n, notice.intent.id)
}

/// What happened, when, and the object that the HTTP API shows, here with the approval's id even when
/// nobody waits for it any more: a receiver may know the request by that alone.
pub(crate) fn body(notice: &Notice) -> Vec<u8> {
    let mut data = json!(IntentView::new(&notice.intent, false, true));
    if let (Some(data), Some(approval)) = (data.as_object_mut(), &notice.intent.approval) {
        data.insert("approvalId".to_owned(), approval.id.as_str().into());
    }
    let body = json!({ "type": notice.event, "timestamp": rfc3339(notice.at), "data": data });
    body.to_string().into_bytes()
}
