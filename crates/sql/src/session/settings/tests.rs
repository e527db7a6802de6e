//! Settings: their values, units and scopes.

use super::*;

#[test]
fn values_are_checked_and_normalized() {
    let mut settings = Settings::new();
    for (name, value, shown) in [
        ("statement_timeout", "60000", "1min"),
        ("statement_timeout", "1500ms", "1500ms"),
        ("datestyle", "sql, dmy", "SQL, DMY"),
        ("TIMEZONE", "europe/berlin", "Europe/Berlin"),
        ("jit", "yes", "on"),
        ("my.setting", "anything", "anything"),
        ("work_mem", "4096", "4MB"),
        ("work_mem", "1536kB", "1536kB"),
        ("work_mem", "131073B", "128kB"),
        ("work_mem", "1TB", "1TB"),
    ] {
        settings.set(name, Some(value), false, false).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(settings.get(name), Some(shown), "{name}");
    }
    for (name, value, state) in [
        ("no_such_setting", "1", "42704"),
        ("server_version", "1", "55P02"),
        ("jit", "maybe", "22023"),
        ("extra_float_digits", "9", "22023"),
        ("datestyle", "gregorian", "22023"),
        ("timezone", "nowhere", "22023"),
        ("work_mem", "much", "22023"),
        ("work_mem", "1KB", "22023"),
        ("work_mem", "63", "22023"),
        ("work_mem", "2147483648kB", "22023"),
        ("work_mem", "99999999999999999999TB", "22023"),
    ] {
        let error = settings.set(name, Some(value), false, false).expect_err(name);
        assert_eq!(error.state().as_str(), state, "{name}");
    }
}

#[test]
fn transactions_take_back_what_they_set() {
    let mut settings = Settings::new();
    settings.set("work_mem", Some("1MB"), false, true).expect("it is a setting");
    settings.set("work_mem", Some("2MB"), true, true).expect("it is a setting");
    settings.end_transaction(true);
    assert_eq!(settings.get("work_mem"), Some("1MB"));
    settings.set("work_mem", Some("3MB"), false, true).expect("it is a setting");
    settings.end_transaction(false);
    assert_eq!(settings.get("work_mem"), Some("1MB"));
}

#[test]
fn clients_are_notified_of_changes_once() {
    let mut settings = Settings::new();
    assert!(settings.take_changed().iter().any(|(name, value)| name == "server_version" && value == "15.8"));
    assert!(settings.take_changed().is_empty());
    settings.set("application_name", Some("psql"), false, false).expect("it is a setting");
    assert_eq!(settings.take_changed(), [("application_name".to_string(), "psql".to_string())]);
}

#[test]
fn the_search_path_knows_the_user() {
    let mut settings = Settings::new();
    assert_eq!(settings.search_path("ada"), ["ada", "public"]);
    settings.set("search_path", Some("\"Odd Name\", other"), false, false).expect("it is a setting");
    assert_eq!(settings.search_path("ada"), ["Odd Name", "other"]);
}
