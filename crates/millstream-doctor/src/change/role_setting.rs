//! Settings of roles, with which their new sessions begin.

use super::session::{assignment, identity, open, refusal, refuse_name_list};
use millstream_change::{Answer, Kind, Place};
use millstream_model::Refusal;
use millstream_pg::quote_identifier;

/// A setting of a role by `ROLE/SETTING`, or by `ROLE/DATABASE/SETTING` for its sessions in one database. Its value is
/// what `alter role` has written. No value: the setting of the database or of the server counts.
#[derive(Debug)]
pub struct RoleSettingKind;

impl Kind for RoleSettingKind {
    fn name(&self) -> &'static str {
        "role-setting"
    }

    fn is_of_server(&self) -> bool {
        true
    }

    fn read<'a>(&'a self, place: &'a Place, target: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async move {
            let (role, database, setting) = role_parts(target)?;
            let session = open(place, None).await?;
            let sql = include_str!("role_setting.sql");
            let row = session.client.query_opt(sql, &[&role, &database, &setting]).await.map_err(refusal)?;
            Ok(row.map(|row| row.get(0)))
        })
    }

    fn write<'a>(&'a self, place: &'a Place, target: &'a str, value: Option<&'a str>) -> Answer<'a, ()> {
        Box::pin(async move {
            let sql = statement(role_parts(target)?, value);
            let session = open(place, None).await?;
            session.client.batch_execute(&sql).await.map_err(refusal)
        })
    }

    fn can_be_renamed(&self) -> bool {
        true
    }

    fn identity<'a>(&'a self, place: &'a Place, _: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(identity(place))
    }
}

/// Role, database and setting of a target. The database is empty if all are meant.
fn role_parts(target: &str) -> Result<(&str, &str, &str), Refusal> {
    let parts: Vec<&str> = target.split('/').collect();
    let found = match parts.as_slice() {
        [role, setting] => Some((*role, "", *setting)),
        [role, database, setting] if !database.is_empty() => Some((*role, *database, *setting)),
        _ => None,
    };
    let plain = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let good = found.filter(|(role, _, setting)| !role.is_empty() && setting.split('.').all(plain));
    let (role, database, setting) = good.ok_or_else(|| Refusal::new(format!("{target} is not a setting of a role")))?;
    refuse_name_list(setting, "alter role")?;
    Ok((role, database, setting))
}

/// The statement that gives a setting of a role a value, or takes its own value away.
fn statement((role, database, setting): (&str, &str, &str), value: Option<&str>) -> String {
    let place = match database {
        "" => String::new(),
        name => format!(" in database {}", quote_identifier(name)),
    };
    format!("alter role {}{place} {}", quote_identifier(role), assignment(setting, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_names_role_database_and_setting() {
        assert_eq!(role_parts("Re ports/work_mem"), Ok(("Re ports", "", "work_mem")));
        assert_eq!(role_parts("a/shop/auto_explain.log_nested"), Ok(("a", "shop", "auto_explain.log_nested")));
        for wrong in ["a", "/work_mem", "a//work_mem", "a/b/c/work_mem", "a/b/", "a/work_mem; drop role a", "a/x..y"] {
            assert!(role_parts(wrong).unwrap_err().to_string().ends_with("is not a setting of a role"), "{wrong}");
        }
        assert!(role_parts("a/b/search_path").unwrap_err().to_string().contains("by hand"));
    }

    #[test]
    fn a_setting_is_set_and_reset_in_one_database_or_in_all() {
        let set = statement(("Re ports", "shop", "work_mem"), Some("64MB"));
        assert_eq!(set, "alter role \"Re ports\" in database \"shop\" set \"work_mem\" = '64MB'");
        assert_eq!(statement(("a", "", "b.c"), None), "alter role \"a\" reset \"b\".\"c\"");
    }
}
