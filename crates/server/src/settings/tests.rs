//! Settings from files, the environment and the command line, and what is wrong with them.

use super::*;

fn load(file: &str, environment: &[(&str, &str)], flags: &str) -> Result<Settings, String> {
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let flags = flags.parse().expect("the test's flags are TOML");
    Settings::load(Some(file), environment, flags).map_err(|error| error.to_string())
}

#[test]
fn a_flag_stands_over_the_environment_over_the_file_over_the_default() {
    let settings = |file, environment: &[_], flags| load(file, environment, flags).expect("they are right");
    assert_eq!(settings("", &[], "").max_connections, 10_000);
    assert_eq!(settings("max_connections = 1", &[], "").max_connections, 1);
    let environment = [("HEDDLE_MAX_CONNECTIONS", "2"), ("HOME", "/root")];
    assert_eq!(settings("max_connections = 1", &environment, "").max_connections, 2);
    assert_eq!(settings("max_connections = 1", &environment, "max_connections = 3").max_connections, 3);
}

#[test]
fn an_unknown_key_is_refused_and_the_message_says_where_it_stands() {
    let message = load("max_conections = 1", &[], "").expect_err("misspelt");
    assert!(message.starts_with("the settings file") && message.contains("max_conections"), "{message}");
    let message = load("", &[("HEDDLE_MAXCONNECTIONS", "1")], "").expect_err("misspelt");
    assert!(message.starts_with("the environment"), "{message}");
    assert!(load("[[host]]\naddress = 'all'\nmethod = 'trust'\nport = 1", &[], "").is_err());
}

#[test]
fn what_a_running_server_cannot_change_is_named() {
    let settings = |text| load(text, &[], "").expect("they are right");
    let old = settings("");
    let changed =
        "max_connections = 7\nlog_level = 'debug'\nwork_mem_bytes = 65536\nstatement_timeout_ms = 9";
    assert_eq!(old.that_need_a_restart(&settings(changed)), Vec::<&str>::new());
    let changed =
        settings("listen = '127.0.0.1:1'\nprotocol = 'serial'\nmax_row_bytes = 1\nlog_format = 'json'");
    assert_eq!(old.that_need_a_restart(&changed), ["listen", "protocol", "max_row_bytes", "log_format"]);
    let changed = settings("schedule = 'predict'\npartition_key = 'branch'");
    assert_eq!(old.that_need_a_restart(&changed), ["schedule", "partition_key"]);
}

#[test]
fn values_that_the_engine_or_the_limits_do_not_have_are_refused() {
    for (text, word) in [
        ("protocol = 'magic'", "protocol"),
        ("durability = 'sometimes'", "durability"),
        ("schedule = 'magic'", "schedule"),
        ("schedule = 'partition'", "partition_key"),
        ("work_mem_bytes = 1", "work_mem_bytes"),
        ("total_work_mem_bytes = 65536", "total_work_mem_bytes"),
        ("log_level = 'loud'", "log_level"),
        ("log_format = 'xml'", "log_format"),
        ("authentication_timeout_s = 0", "authentication_timeout_s"),
        ("authentication_timeout_s = 601", "authentication_timeout_s"),
        ("drain_s = 2147484", "drain_s"),
        ("client_write_timeout_s = 2147484", "client_write_timeout_s"),
        ("statement_timeout_ms = 2147483648", "statement_timeout_ms"),
        ("lock_timeout_ms = 2147483648", "lock_timeout_ms"),
        ("idle_session_timeout_ms = 2147483648", "idle_session_timeout_ms"),
        ("idle_in_transaction_session_timeout_ms = 2147483648", "idle_in_transaction_session_timeout_ms"),
        ("work_mem_bytes = 2199023254529\ntotal_work_mem_bytes = 2199023254529", "work_mem_bytes"),
    ] {
        let message = load(text, &[], "").expect_err(text);
        assert!(message.contains(word), "{text}: {message}");
    }
    let settings = load("protocol = 'phased'\ndurability = 'async'", &[], "").expect("they are right");
    assert_eq!(settings.engine(), Ok((Some(ProtocolKind::Phased), Durability::Async)));
    let settings = load("schedule = 'partition'\npartition_key = 'branch'", &[], "").expect("they are right");
    assert_eq!(settings.schedule(), Ok(Some(ScheduleKind::Partition)));
}

#[test]
fn keys_of_the_command_line_and_the_environment_are_distinguished_from_those_of_the_file() {
    let load = |file: &str, variables: &[(&str, &str)], flags: &str| {
        load(file, variables, flags).expect("they are right")
    };
    let file = "protocol = 'phased'\nschedule = 'predict'";
    let settings = load(file, &[("HEDDLE_SCHEDULE", "random")], "max_connections = 7");
    let given = ["protocol", "schedule", "max_connections"].map(|key| settings.is_given(key));
    assert_eq!(given, [false, true, true]);
}

#[test]
fn printed_settings_parse_back_to_the_same_settings() {
    let text = "database = 'shop'\ntls_certificate = 'a.pem'\ntls_key = 'b.pem'\n\
                [[host]]\naddress = '10.0.0.0/8'\nusers = ['ada']\nmethod = 'certificate'";
    let settings = load(text, &[], "").expect("they are right");
    let printed = settings.to_toml().expect("paths are UTF-8");
    let in_force =
        Settings { protocol: Some("auto".to_string()), schedule: Some("random".to_string()), ..settings };
    assert_eq!(load(&printed, &[], ""), Ok(in_force), "the protocol that nothing sets is printed, too");
}

#[test]
fn every_setting_is_documented() {
    let manual = include_str!("../../../../docs/operating.md");
    let settings = serde_json::to_value(Settings::default()).expect("paths are UTF-8");
    for key in settings.as_object().expect("it has keys").keys() {
        let is_rule = key == "host" && manual.contains("| `[[host]]` |");
        assert!(is_rule || manual.contains(&format!("`{key}`")), "docs/operating.md lacks {key}");
    }
    let file = include_str!("../../../../packaging/heddle.toml");
    assert!(load(file, &[], "").is_ok(), "the packaged settings file is valid");
}

#[test]
fn an_open_address_needs_tls_or_an_explicit_word() {
    let message = load("listen = '0.0.0.0:5432'", &[], "").expect_err("open to the world");
    assert!(message.contains("allow_unencrypted"), "{message}");
    assert!(load("listen = '0.0.0.0:5432'\nallow_unencrypted = true", &[], "").is_ok());
    assert!(load("listen = '0.0.0.0:5432'\ntls_certificate = 'c'\ntls_key = 'k'", &[], "").is_ok());
    assert!(load("tls_certificate = 'c'", &[], "").is_err());
    assert!(load("tls_client_ca = 'c'", &[], "").is_err());
    assert!(load("max_message_bytes = 1", &[], "").is_err());
}

#[test]
fn http_beyond_this_machine_needs_a_token_and_tls() {
    assert!(load("http = '127.0.0.1:9090'", &[], "").is_ok());
    let message = load("http = '0.0.0.0:9090'", &[], "").expect_err("open to the world");
    assert!(message.contains("http_token_file"), "{message}");
    let message = load("http = '0.0.0.0:9090'\nhttp_token_file = 't'", &[], "").expect_err("unencrypted");
    assert!(message.contains("allow_unencrypted"), "{message}");
    assert!(
        load("http = '[::]:9090'\nhttp_token_file = 't'\ntls_certificate = 'c'\ntls_key = 'k'", &[], "")
            .is_ok()
    );
}

#[test]
fn the_first_rule_that_fits_decides_and_no_rule_rejects() {
    let text = "[[host]]\naddress = '10.1.0.0/16'\nmethod = 'reject'\n\
                [[host]]\naddress = '10.0.0.0/8'\nusers = ['ada']\nmethod = 'trust'\n\
                [[host]]\naddress = '::1'\nmethod = 'scram'";
    let settings = load(text, &[], "").expect("they are right");
    let method = |address: &str, user| settings.method(address.parse().expect("an address"), user, true);
    assert_eq!(method("10.1.2.3", "ada"), Method::Reject);
    assert_eq!(method("10.2.2.3", "ada"), Method::Trust);
    assert_eq!(method("10.2.2.3", "bob"), Method::Reject);
    assert_eq!(method("::1", "bob"), Method::Scram);
    assert!(load("[[host]]\naddress = '10.0.0.0/33'\nmethod = 'trust'", &[], "").is_err());
}

#[test]
fn without_rules_loopback_is_trusted_until_there_is_a_user() {
    let settings = Settings::default();
    let method =
        |address: &str, has_users| settings.method(address.parse().expect("an address"), "ada", has_users);
    assert_eq!(method("127.0.0.1", false), Method::Trust);
    assert_eq!(method("127.0.0.1", true), Method::Scram);
    assert_eq!(method("192.0.2.1", false), Method::Scram);
}
