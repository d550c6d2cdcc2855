//! People and what they may do by their roles.

use gate_core::UserName;
use gate_store::{Reads, Snapshot, UserRow, Write};

use super::{Admin, AdminError, known_user};
use crate::change::Plan;
use crate::votes::{FIXED_ROLES, reviews};

/// Something that takes a role. Owners may do all of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum May {
    /// Put another policy in force, or lift a stop: policy editors.
    EditPolicy,
    /// Say who people are, and what they may do: owners alone.
    Own,
    /// Vote, reopen, resolve: whoever has a reviewer role.
    Review,
    /// Stop, or withdraw a request: policy editors and whoever has a reviewer role. Neither does harm
    /// that asking again later does not mend.
    Stop,
}

impl May {
    fn by(self, role: &str) -> bool {
        let editor = role == "policy-editor";
        match self {
            _ if role == "owner" => true,
            Self::EditPolicy => editor,
            Self::Own => false,
            Self::Review => reviews(role),
            Self::Stop => editor || reviews(role),
        }
    }

    const fn in_words(self) -> (&'static str, &'static str) {
        match self {
            Self::EditPolicy => ("change the policy or lift a stop", "an owner or a policy-editor"),
            Self::Own => ("say what people may do", "an owner"),
            Self::Review => ("decide", "an owner or a reviewer role"),
            Self::Stop => {
                ("stop or withdraw anything", "an owner, a policy-editor or a reviewer role")
            }
        }
    }
}

/// Whether a person may do this.
pub(super) fn may(seen: &Snapshot, name: &UserName, what: May) -> Result<(), AdminError> {
    let user = known_user(seen, name)?;
    if user.roles.iter().any(|role| what.by(role)) {
        return Ok(());
    }
    let (deed, takes) = what.in_words();
    let is = if user.roles.is_empty() { "revoked".to_owned() } else { user.roles.join(", ") };
    Err(AdminError::Forbidden(format!("{name} is {is} and may not {deed}: that takes {takes}")))
}

impl Admin<'_> {
    /// All people, by name.
    ///
    /// # Errors
    ///
    /// [`AdminError::Authority`].
    pub async fn users(&self) -> Result<Vec<UserRow>, AdminError> {
        Ok(self.authority.read(Reads { users: true, ..Reads::default() }).await?.users)
    }

    /// Makes a person.
    ///
    /// # Errors
    ///
    /// [`AdminError::Conflict`] when the name is taken; [`AdminError::Invalid`] without a role;
    /// [`AdminError::Forbidden`] unless an owner does it.
    pub async fn create_user(
        &self,
        name: &UserName,
        roles: &[String],
    ) -> Result<UserRow, AdminError> {
        checked_roles(name, roles)?;
        let (name, roles) = (name.clone(), roles.to_vec());
        let reads = Reads { users: true, ..Reads::default() };
        self.change(reads, move |by, world| {
            world.may(May::Own)?;
            if world.seen.users.iter().any(|user| user.name == name) {
                return Err(AdminError::Conflict(format!(
                    "there is a user {name} already: change what they may do with `user set-roles`"
                )));
            }
            let user = UserRow { name: name.clone(), roles: roles.clone(), created_at: world.now };
            let details = serde_json::json!({ "roles": roles });
            let writes = vec![
                Write::InsertUser(user.clone()),
                world.audited(by, "user.created", name.as_str(), &details),
            ];
            Ok(Plan { writes, reply: user })
        })
        .await
    }

    /// Gives a person other roles, all of them at once. What they approved counts from now on only
    /// as far as they still hold the role for it.
    ///
    /// # Errors
    ///
    /// [`AdminError::NotFound`]; [`AdminError::Invalid`] without a role;
    /// [`AdminError::Forbidden`] unless an owner does it.
    pub async fn set_roles(
        &self,
        name: &UserName,
        roles: &[String],
    ) -> Result<UserRow, AdminError> {
        checked_roles(name, roles)?;
        self.put_roles(name, roles, "user.roles_set").await
    }

    /// Takes all roles from a person. The name stays, for it stands in records, and can be given
    /// roles again.
    ///
    /// # Errors
    ///
    /// [`AdminError::NotFound`]; [`AdminError::Forbidden`] unless an owner does it.
    pub async fn revoke_user(&self, name: &UserName) -> Result<UserRow, AdminError> {
        self.put_roles(name, &[], "user.revoked").await
    }

    async fn put_roles(
        &self,
        name: &UserName,
        roles: &[String],
        action: &'static str,
    ) -> Result<UserRow, AdminError> {
        let (name, roles) = (name.clone(), roles.to_vec());
        let reads = Reads { users: true, ..Reads::default() };
        self.change(reads, move |by, world| {
            world.may(May::Own)?;
            let user = known_user(world.seen, &name)?;
            let details = serde_json::json!({ "roles": roles, "before": user.roles });
            let user = UserRow { roles: roles.clone(), ..user.clone() };
            let writes = vec![
                Write::SetRoles { user: name.clone(), roles: roles.clone() },
                world.audited(by, action, name.as_str(), &details),
            ];
            Ok(Plan { writes, reply: user })
        })
        .await
    }
}

fn checked_roles(name: &UserName, roles: &[String]) -> Result<(), AdminError> {
    if roles.is_empty() {
        return Err(AdminError::Invalid(format!(
            "user {name} needs a role: {}, or a reviewer role of your own naming",
            FIXED_ROLES.join(", ")
        )));
    }
    if let Some(bad) = roles.iter().find(|role| UserName::parse(role).is_err()) {
        return Err(AdminError::Invalid(format!(
            "`{bad}` is not a role's name: use 1 to 64 of a-z, 0-9, - _ and ."
        )));
    }
    Ok(())
}
