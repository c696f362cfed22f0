//! Who may connect to a target, and what of it each may see.

use crate::session::Permission;
use crate::volume::Volume;
use kintsugidb_fabric::{Refusal, RefusalCode};
use std::collections::HashMap;
use std::sync::Arc;

/// A user of a target.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The password.
    pub password: String,
    /// Volumes by name, and whether they may be written. `None`: all of them, as they are exported.
    pub volumes: Option<HashMap<String, bool>>,
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "User({:?}, {:?}, password not shown)", self.name, self.volumes)
    }
}

impl std::str::FromStr for User {
    type Err = String;

    /// `NAME:PASSWORD` (all volumes, as exported), or `NAME:PASSWORD:VOLUME,VOLUME=rw,…`.
    fn from_str(text: &str) -> Result<User, String> {
        let mut parts = text.splitn(3, ':');
        let name = parts.next().unwrap_or_default();
        let password =
            parts.next().ok_or("a user is given as NAME:PASSWORD or NAME:PASSWORD:VOLUME[=rw],…")?;
        if name.is_empty() {
            return Err("a user needs a name".into());
        }
        let mut user = User { name: name.into(), password: password.into(), volumes: None };
        if let Some(list) = parts.next() {
            let mut volumes = HashMap::new();
            for entry in list.split(',').filter(|e| !e.is_empty()) {
                let (volume, writable) = match entry.split_once('=') {
                    None | Some((_, "ro")) => (entry.trim_end_matches("=ro"), false),
                    Some((volume, "rw")) => (volume, true),
                    Some((_, other)) => return Err(format!("{other:?} is neither ro nor rw")),
                };
                volumes.insert(volume.to_owned(), writable);
            }
            user.volumes = Some(volumes);
        }
        Ok(user)
    }
}

/// All users, with what each may open.
pub(crate) struct Users {
    list: Vec<(User, Arc<HashMap<String, Permission>>)>,
}

impl Users {
    /// Without any user there is one, `default` without a password.
    pub fn new(users: &[User], volumes: &[Arc<Volume>]) -> Result<Users, String> {
        let everybody = [User { name: "default".into(), password: String::new(), volumes: None }];
        let users = if users.is_empty() { &everybody[..] } else { users };
        let mut list = Vec::new();
        for user in users {
            if let Some(unknown) = user
                .volumes
                .iter()
                .flat_map(|v| v.keys())
                .find(|name| !volumes.iter().any(|v| v.name() == *name))
            {
                return Err(format!("user {} is given a volume {unknown:?} that is not exported", user.name));
            }
            let allowed = volumes.iter().filter_map(|volume| {
                let writable = match &user.volumes {
                    None => true,
                    Some(list) => *list.get(volume.name())?,
                };
                Some((volume.name().to_owned(), Permission { volume: volume.clone(), writable }))
            });
            list.push((user.clone(), Arc::new(allowed.collect())));
        }
        Ok(Users { list })
    }

    /// The permissions of a user with the right password. Unknown names take as long as wrong passwords.
    pub fn admit(&self, name: &[u8], password: &[u8]) -> Result<Arc<HashMap<String, Permission>>, Refusal> {
        let mut found = None;
        for (user, permissions) in &self.list {
            let right = same(user.name.as_bytes(), name) & same(user.password.as_bytes(), password);
            if right {
                found = Some(permissions.clone());
            }
        }
        found.ok_or_else(|| Refusal {
            code: RefusalCode::Authentication,
            reason: "wrong user or password".to_owned(),
        })
    }

    /// The permissions of a user that has been admitted.
    pub fn permissions(&self, name: &[u8]) -> Option<Arc<HashMap<String, Permission>>> {
        self.list.iter().find(|(user, _)| user.name.as_bytes() == name).map(|(_, p)| p.clone())
    }
}

/// Compares in a time that depends on the given bytes' length alone.
fn same(secret: &[u8], given: &[u8]) -> bool {
    let mut different = secret.len() ^ given.len();
    for (at, byte) in given.iter().enumerate() {
        different |= usize::from(byte ^ secret.get(at).copied().unwrap_or(0));
    }
    std::hint::black_box(different) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_gets_what_it_was_given_and_no_more() {
        let volume = |name: &str| {
            let options = format!("{name}=dummy:4096").parse().unwrap();
            Arc::new(Volume::open(&options).unwrap())
        };
        let volumes = [volume("a"), volume("b")];
        let users: Vec<User> = ["ann:x:a=rw", "bob:y"].iter().map(|u| u.parse().unwrap()).collect();
        let users = Users::new(&users, &volumes).unwrap();
        let ann = users.admit(b"ann", b"x").unwrap();
        assert!(ann["a"].writable && !ann.contains_key("b"));
        assert_eq!(users.admit(b"bob", b"y").unwrap().len(), 2);
        for (name, password) in
            [("ann", "y"), ("ann", ""), ("ann", "xx"), ("", ""), ("default", ""), ("eve", "x")]
        {
            assert!(users.admit(name.as_bytes(), password.as_bytes()).is_err(), "{name} {password}");
        }
        assert!(Users::new(&["ann:x:c".parse().unwrap()], &volumes).is_err());
        assert!("ann".parse::<User>().is_err() && "ann:x:a=w".parse::<User>().is_err());
    }
}
