//! Settings as `pg_settings` shows them: numbers in the setting's unit, bounds, words to choose from.
//!
//! Invariant: a value with a unit is shown as a whole number of that unit, as PostgreSQL shows it.

use super::settings::{Kind, Settings, known, parse_bytes, parse_duration};

/// A setting with what `pg_settings` says about it.
pub(crate) struct DescribedSetting {
    /// Its name, as SHOW ALL spells it.
    pub name: String,
    /// Its value, in its unit.
    pub value: String,
    /// The unit of its value.
    pub unit: Option<&'static str>,
    /// The type of its value; `None` for a custom setting.
    pub vartype: Option<&'static str>,
    /// The least value.
    pub least: Option<String>,
    /// The greatest value.
    pub most: Option<String>,
    /// The words that it may be.
    pub words: Option<&'static [&'static str]>,
    /// The value that it has unless something sets it.
    pub boot_value: Option<String>,
    /// The value that RESET restores.
    pub reset_value: Option<String>,
    /// True if SET of this setting is an error.
    pub is_fixed: bool,
}

impl Kind {
    fn unit(&self) -> Option<&'static str> {
        match self {
            Kind::Duration => Some("ms"),
            Kind::Size => Some("kB"),
            Kind::Pages => Some("8kB"),
            _ => None,
        }
    }

    fn vartype(&self) -> &'static str {
        match self {
            Kind::Bool | Kind::Only(..) => "bool",
            Kind::Integer(..) | Kind::Duration | Kind::Size | Kind::Pages => "integer",
            Kind::Real(..) => "real",
            Kind::Words(_) => "enum",
            Kind::Text | Kind::DateStyle | Kind::TimeZone | Kind::Encoding | Kind::Fixed => "string",
        }
    }

    /// A value as it is kept, in the setting's unit.
    fn in_unit(&self, value: &str) -> String {
        let number = match self {
            Kind::Duration => parse_duration(value),
            Kind::Size => parse_bytes(value).map(|bytes| (bytes >> 10) as u64),
            Kind::Pages => parse_bytes(value).map(|bytes| (bytes >> 13) as u64),
            _ => None,
        };
        number.map_or_else(|| value.to_string(), |number| number.to_string())
    }

    fn bounds(&self) -> Option<(String, String)> {
        let shown = |real: f64| if real == f64::MAX { "1.79769e+308".to_string() } else { real.to_string() };
        match self {
            Kind::Integer(least, most) => Some((least.to_string(), most.to_string())),
            Kind::Real(least, most) => Some((shown(*least), shown(*most))),
            Kind::Duration => Some(("0".to_string(), i32::MAX.to_string())),
            Kind::Size => Some(("64".to_string(), i32::MAX.to_string())),
            Kind::Pages => Some(("0".to_string(), i32::MAX.to_string())),
            _ => None,
        }
    }
}

impl Settings {
    /// These settings with their values, as `pg_settings` lists them.
    pub fn described(&self, all: Vec<(String, String)>) -> Vec<DescribedSetting> {
        all.into_iter().map(|(name, value)| self.describe(name, &value)).collect()
    }

    fn describe(&self, name: String, value: &str) -> DescribedSetting {
        let reset = self.default_of(&name);
        let Some((_, boot, kind, _)) = known(&name) else {
            return DescribedSetting {
                value: value.to_string(),
                reset_value: reset.map(str::to_string),
                name,
                unit: None,
                vartype: None,
                least: None,
                most: None,
                words: None,
                boot_value: None,
                is_fixed: false,
            };
        };
        let (least, most) = kind.bounds().unzip();
        DescribedSetting {
            value: kind.in_unit(value),
            reset_value: reset.map(|value| kind.in_unit(value)),
            name,
            unit: kind.unit(),
            vartype: Some(kind.vartype()),
            least,
            most,
            words: match kind {
                Kind::Words(words) => Some(words),
                _ => None,
            },
            boot_value: Some(kind.in_unit(boot)),
            is_fixed: matches!(kind, Kind::Fixed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(settings: &Settings, name: &str) -> DescribedSetting {
        settings
            .described(settings.all())
            .into_iter()
            .find(|it| it.name == name)
            .unwrap_or_else(|| panic!("{name}"))
    }

    #[test]
    fn values_are_numbers_of_the_settings_unit() {
        let mut settings = Settings::new();
        for (name, given, value, unit) in [
            ("work_mem", "1GB", "1048576", Some("kB")),
            ("statement_timeout", "1min", "60000", Some("ms")),
            ("statement_timeout", "0", "0", Some("ms")),
            ("effective_cache_size", "4GB", "524288", Some("8kB")),
            ("effective_cache_size", "100", "100", Some("8kB")),
            ("effective_cache_size", "4", "4", Some("8kB")),
            ("effective_cache_size", "16kB", "2", Some("8kB")),
            ("min_parallel_table_scan_size", "0", "0", Some("8kB")),
            ("jit", "yes", "on", None),
            ("search_path", "a, b", "a, b", None),
        ] {
            settings.set(name, Some(given), false, false).unwrap_or_else(|error| panic!("{name}: {error}"));
            let found = described(&settings, name);
            assert_eq!((found.value.as_str(), found.unit), (value, unit), "{name} = {given}");
        }
    }

    #[test]
    fn types_bounds_and_words_follow_from_what_a_setting_may_be() {
        let settings = Settings::new();
        let found = described(&settings, "extra_float_digits");
        assert_eq!(
            (found.vartype, found.least.as_deref(), found.most.as_deref()),
            (Some("integer"), Some("-15"), Some("3"))
        );
        let found = described(&settings, "bytea_output");
        assert_eq!((found.vartype, found.words), (Some("enum"), Some(&["escape", "hex"][..])));
        let found = described(&settings, "server_version");
        assert!(found.is_fixed && found.words.is_none() && found.least.is_none());
    }

    #[test]
    fn a_changed_setting_keeps_what_reset_restores() {
        let mut settings = Settings::new();
        settings.set_default("work_mem", "8MB").unwrap();
        settings.set("work_mem", Some("16MB"), false, false).unwrap();
        let found = described(&settings, "work_mem");
        assert_eq!(found.value, "16384");
        assert_eq!(found.reset_value.as_deref(), Some("8192"));
        assert_eq!(found.boot_value.as_deref(), Some("262144"));
        settings.set("my.own", Some("x"), false, false).unwrap();
        let found = described(&settings, "my.own");
        assert_eq!((found.value.as_str(), found.vartype, found.boot_value), ("x", None, None));
    }
}
