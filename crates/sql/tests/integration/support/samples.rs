//! Interesting texts of every type, for generated expressions, and a small generator of random numbers.

use heddle_sql::types::Type;

/// Texts that the input function of a type accepts; the first ones are the plainest.
pub fn samples(kind: Type) -> Vec<&'static str> {
    match kind {
        Type::Array(element) => array_samples(element.get()),
        kind => [number_samples, text_samples, moment_samples, other_samples]
            .iter()
            .flat_map(|of| of(kind))
            .collect(),
    }
}

fn array_samples(element: Type) -> Vec<&'static str> {
    match element {
        Type::Int4 | Type::Int8 | Type::Int2 | Type::Float8 | Type::Numeric | Type::Float4 => vec![
            "{1,2,3}",
            "{}",
            "{NULL}",
            "{1,NULL,3}",
            "{{1,2},{3,4}}",
            "[0:2]={5,6,7}",
            "{3,1,2,3}",
            "{2}",
        ],
        Type::Text | Type::Varchar => vec![
            "{a,b,c}",
            "{}",
            "{NULL}",
            "{\"NULL\",NULL,\"\"}",
            "{\"x y\",\"q\\\"r\"}",
            "{{a,b},{c,d}}",
            "{b}",
            "{a}",
            "{a,1,b}",
        ],
        Type::Bool => vec!["{t,f}"],
        Type::Date => vec!["{2024-01-01,2023-01-01}"],
        Type::Jsonb => vec!["{\"{}\",\"[1]\"}"],
        _ => vec!["{}"],
    }
}

fn number_samples(kind: Type) -> Vec<&'static str> {
    match kind {
        Type::Bool => vec!["true", "false"],
        Type::Int2 => vec!["1", "0", "-1", "2", "7", "-13", "32767", "-32768", "100"],
        Type::Int4 => {
            vec!["1", "0", "-1", "2", "3", "7", "-13", "10", "16", "2147483647", "-2147483648", "12345"]
        }
        Type::Int8 => vec![
            "1",
            "0",
            "-1",
            "2",
            "7",
            "-13",
            "10000000000",
            "9223372036854775807",
            "-9223372036854775808",
        ],
        Type::Float4 => vec!["1.5", "0", "-2.25", "3e10", "1e-20", "NaN", "Infinity", "-0", "100", "3.4e38"],
        Type::Float8 => vec![
            "1.5",
            "0",
            "-2.25",
            "3e100",
            "1e-200",
            "NaN",
            "Infinity",
            "-Infinity",
            "-0",
            "0.5",
            "100",
            "2.718281828459045",
            "1e308",
            "45",
            "-1",
            "1",
        ],
        Type::Numeric => vec![
            "1.5",
            "0",
            "-2.25",
            "1",
            "2",
            "10",
            "0.001",
            "123456789012345678901234567890.123456789",
            "NaN",
            "Infinity",
            "-Infinity",
            "0.00",
            "99.995",
            "-7",
            "1e-15",
            "3.14159265358979323846",
            "1e20",
            "-0.5",
        ],
        _ => vec![],
    }
}

fn text_samples(kind: Type) -> Vec<&'static str> {
    match kind {
        Type::Text | Type::Varchar | Type::Unknown => vec![
            "abc",
            "",
            "Hello World",
            "  padded  ",
            "a,b,c",
            "äöü ß Ω",
            "abcabcabc",
            "%a_c%",
            "123",
            "The Quick brown",
            "a\\b",
            "x'y\"z",
            "日本語テキスト",
            "-12.5",
            "aaa",
        ],
        Type::Bpchar => vec!["abc", "", "ab  ", "äö "],
        Type::Name => vec!["abc", "", "Some Name", "x'y"],
        Type::Char => vec!["a", "", "z"],
        Type::Bytea => vec!["\\x0102ff", "\\x", "abc", "\\x00", "\\xdeadbeef00", "a\\\\b"],
        _ => vec![],
    }
}

fn moment_samples(kind: Type) -> Vec<&'static str> {
    match kind {
        Type::Date => vec![
            "2024-02-29",
            "2000-01-01",
            "1999-12-31",
            "0044-03-15 BC",
            "infinity",
            "-infinity",
            "5874897-12-31",
            "4713-11-24 BC",
            "2023-07-04",
            "1970-01-01",
        ],
        Type::Time => vec!["12:34:56.789", "00:00:00", "24:00:00", "23:59:59.999999", "08:15:00"],
        Type::Timetz => vec!["12:34:56.789+02", "00:00:00+00", "23:59:59.999999-08:30", "08:15:00+00"],
        Type::Timestamp => vec![
            "2024-02-29 12:34:56.789",
            "2000-01-01 00:00:00",
            "1999-12-31 23:59:59.999999",
            "infinity",
            "-infinity",
            "0044-03-15 01:02:03 BC",
            "294276-12-31 23:59:59.999999",
            "2024-03-31 02:30:00",
            "1970-01-01 00:00:00",
        ],
        Type::Timestamptz => vec![
            "2024-02-29 12:34:56.789+00",
            "2000-01-01 00:00:00+00",
            "1999-12-31 23:59:59.999999-08",
            "infinity",
            "-infinity",
            "2024-03-31 01:30:00+00",
            "2024-10-27 01:30:00+02",
            "1970-01-01 00:00:00+00",
        ],
        Type::Interval => vec![
            "1 day",
            "0",
            "-1 month",
            "1 year 2 months 3 days 04:05:06.789",
            "-3 days 12:00:00",
            "100 hours",
            "15 days",
            "-1 year -2 months +3 days -04:05:06",
            "30 days",
            "1 week",
            "00:00:00.000001",
        ],
        _ => vec![],
    }
}

fn other_samples(kind: Type) -> Vec<&'static str> {
    match kind {
        Type::Uuid => vec!["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000000"],
        Type::Inet => vec![
            "10.1.2.3/8",
            "10.1.2.3",
            "192.168.1.0/24",
            "0.0.0.0/0",
            "::1",
            "fe80::1/64",
            "255.255.255.255",
        ],
        Type::Cidr => vec!["10.0.0.0/8", "10.1.0.0/16", "192.168.1.128/25", "fe80::/10", "::1"],
        Type::Macaddr => vec!["08:00:2b:01:02:03", "ff:ff:ff:ff:ff:ff"],
        Type::Json | Type::Jsonb => vec![
            "{\"a\": 1, \"b\": [1, 2, {\"c\": null}]}",
            "[]",
            "{}",
            "null",
            "[1, \"two\", 3.50, true, null]",
            "\"text\"",
            "12.50",
            "{\"b\": {\"x\": \"y\"}, \"a\": 1, \"aa\": 2}",
            "[[1,2],[3]]",
            "true",
            "{\"a\": null}",
            "[\"a\", \"b\", \"b\"]",
        ],
        Type::Jsonpath => vec![
            "$",
            "$.a",
            "$.b[*]",
            "strict $.a",
            "$[*] ? (@ > 1)",
            "$.** ? (exists (@.c))",
            "$[last].type()",
            "-$[*] + 1",
            "$.a == 1",
            "$[0 to 1]",
        ],
        Type::Oid => vec!["1", "0", "4294967295", "25"],
        Type::Regtype => vec!["integer", "25", "text[]"],
        _ => vec![],
    }
}

/// Random numbers that a seed repeats (splitmix64).
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below a bound.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.bits() % bound as u64) as usize
    }

    /// One of these.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

/// A text as a literal of a statement.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
