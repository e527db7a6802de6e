//! Operators without parentheses, frames over special values, regular expressions, and templates of moments.

use super::super::Generator;

const OPERANDS: [&str; 14] =
    ["1", "2", "3", "a", "b", "(2)", "null", "-1", "true", "p", "'x'", "s", "'10'", "false"];
const INFIX: [&str; 34] = [
    "+",
    "-",
    "*",
    "/",
    "%",
    "^",
    "&",
    "|",
    "#",
    "<<",
    ">>",
    "<",
    ">",
    "=",
    "<=",
    ">=",
    "<>",
    "!=",
    "||",
    "~",
    "!~",
    "~~",
    "operator(pg_catalog.+)",
    "operator(pg_catalog.=)",
    "and",
    "or",
    "is distinct from",
    "is not distinct from",
    "like",
    "not like",
    "ilike",
    "similar to",
    "and",
    "=",
];
const PREFIX: [&str; 6] = ["-", "+", "~", "@", "not", "|/"];
const SUFFIX: [&str; 18] = [
    "is null",
    "is not null",
    "isnull",
    "notnull",
    "is true",
    "is not false",
    "::text",
    "::int",
    "::bool",
    "between 1 and 3",
    "not between 2 and 5",
    "in (1, 2)",
    "not in (1, 3)",
    "= any (array[1, 2])",
    "between symmetric 3 and 1",
    "between 1 and 3 + 1",
    "like '1%' escape '#'",
    "collate \"C\"",
];
const QUANTIFIERS: [&str; 15] = [
    "*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,2}?", "{2}?", "{1,}", "{0}", "{1,1}", "{1,1}?",
    "{2,3}?",
];
const FIELDS: [&str; 44] = [
    "YYYY", "YYY", "YY", "Y", "Y,YYY", "IYYY", "IYY", "IY", "I", "Q", "MM", "Mon", "MONTH", "month", "RM",
    "rm", "WW", "IW", "W", "DDD", "IDDD", "DD", "D", "ID", "J", "Day", "dy", "HH12", "HH24", "MI", "SS",
    "SSSS", "MS", "US", "FF3", "AM", "bc", "CC", "TZH", "TZM", "FMDD", "FMMonth", "DDth", "TMDay",
];
const MOMENTS: [&str; 6] = [
    "timestamp '2024-02-29 13:45:06.789012'",
    "timestamptz '2024-12-30 00:05:59.9+00'",
    "timestamp '2021-01-03'",
    "timestamp '0044-03-15 BC 01:02:03'",
    "timestamp '1999-12-31 23:59:59.999999'",
    "timestamptz '0001-01-01 12:00:00+00'",
];
const TEXTS: [&str; 12] = [
    "2024-02-29",
    "29 Feb 2024",
    "20240229",
    "01:02:03 PM",
    "2024-W09-4",
    "44-03-15 BC",
    "XII",
    "10:20:30.123456 -08",
    "2459000",
    "2024-02-30",
    "1,234",
    "366",
];

impl Generator {
    /// Operators, one after the other: what they mean depends on precedence alone.
    pub(super) fn operators_query(&mut self) -> String {
        let mut text = String::new();
        for at in 0..1 + self.below(4) {
            if at > 0 {
                text += &format!(" {} ", self.pick(&INFIX));
            }
            while self.chance(25) {
                text += &format!("{} ", self.pick(&PREFIX));
            }
            text += self.pick(&OPERANDS);
            while self.chance(20) {
                text += &format!(" {}", self.pick(&SUFFIX));
            }
        }
        format!("select {text} from (values (4, -6, true, 'y'::text), (1, 2, false, '1')) v(a, b, p, s)")
    }

    /// RANGE frames over infinities and NaN.
    pub(super) fn frames_query(&mut self) -> String {
        let kind = self.pick(&["float8", "float4", "numeric", "date", "interval"]);
        let (values, offsets): (&[&str], &[&str]) = match kind {
            "date" => (
                &["'-infinity'", "'infinity'", "'2024-01-31'", "'2024-03-01'", "null"],
                &["'1 day'::interval", "'1 month'::interval", "'-1 day'::interval"],
            ),
            "interval" => (
                &["'1 day'", "'25 hours'", "'1 mon'", "'-1 hour'", "null"],
                &["'1 day'::interval", "'0'::interval"],
            ),
            _ => (
                &["'-infinity'", "'infinity'", "'nan'", "-1.5", "0", "2", "2.5", "null"],
                &["'infinity'", "1", "0.5", "0", "'nan'", "-1"],
            ),
        };
        let rows: Vec<String> =
            (0..4 + self.below(5)).map(|id| format!("({id}, {})", self.pick(values))).collect();
        let mut bounds = [String::new(), String::new()];
        for bound in &mut bounds {
            let offset = self.pick(offsets);
            *bound = match self.below(4) {
                0 => "current row".to_string(),
                1 => format!("{offset} following"),
                _ => format!("{offset} preceding"),
            };
        }
        let order = self.pick(&["", " desc", " nulls first", " desc nulls last"]);
        let exclusion = self.pick(&["", "", " exclude current row", " exclude group", " exclude ties"]);
        format!(
            "select id, count(*) over win, min(v) over win, max(id) over win from \
             (select id, v::{kind} as v from (values {}) r(id, v)) w window win as \
             (order by v{order} range between {} and {}{exclusion})",
            rows.join(", ").replace("(0, null)", "(0, null::text)").replace("-1.5", "'-1.5'"),
            bounds[0],
            bounds[1]
        )
        .replace("(0, 0)", "(0, '0')")
    }

    fn pattern(&mut self, depth: usize, groups: &mut usize) -> String {
        let mut text = String::new();
        for at in 0..1 + self.below(2) {
            if at > 0 {
                text.push('|');
            }
            for _ in 0..self.below(4) {
                text += &self.atom(depth, groups);
                if self.chance(35) && !text.ends_with(['^', '$', 'y', 'm', 'M']) && !text.ends_with("x)") {
                    text += self.pick(&QUANTIFIERS);
                }
            }
        }
        text
    }

    fn atom(&mut self, depth: usize, groups: &mut usize) -> String {
        if depth == 0 || self.chance(50) {
            let plain =
                ["a", "a", "b", "c", ".", "[ab]", "[^a]", "\\w", "\\d", "\\y", "\\m", "\\M", "^", "$"];
            return self.pick(&plain).to_string();
        }
        match self.below(6) {
            0..=2 => {
                *groups += 1;
                format!("({})", self.pattern(depth - 1, groups))
            }
            3 => format!("(?:{})", self.pattern(depth - 1, groups)),
            4 if *groups > 0 => format!("\\{}", 1 + self.below(*groups)),
            _ => format!("{}{}x)", self.pick(&["(?=", "(?!", "(?<=", "(?<!"]), self.pick(&["a", "b*", "."])),
        }
    }

    /// Functions of a regular expression.
    pub(super) fn regex_query(&mut self) -> String {
        let pattern = self.pattern(3, &mut 0);
        let text: String =
            (0..self.below(9)).map(|_| self.pick(&["a", "a", "b", "c", "1", "x", " "])).collect();
        let flags = self.pick(&["", "", "i", "n", "w", "p", "s"]);
        format!(
            "select '{text}' ~ '{pattern}', regexp_match('{text}', '{pattern}', '{flags}'), \
             regexp_replace('{text}', '{pattern}', '<\\1\\&>', 'g{flags}'), \
             regexp_split_to_array('{text}', '{pattern}', '{flags}'), regexp_count('{text}', '{pattern}'), \
             regexp_instr('{text}', '{pattern}', 1, 1, 1), substring('{text}' from '{pattern}')"
        )
    }

    /// Moments as texts, and texts as moments.
    pub(super) fn template_query(&mut self) -> String {
        let mut template = String::new();
        for _ in 0..1 + self.below(4) {
            template += self.pick(&FIELDS);
            template += self.pick(&[" ", "-", ":", ".", ",", "", "T", "/"]);
        }
        let function = self.pick(&["to_date", "to_timestamp"]);
        let moment = self.pick(&MOMENTS);
        match self.below(3) {
            0 => format!("select to_char({moment}, '{template}')"),
            1 => format!("select {function}(to_char({moment}, '{template}'), '{template}')"),
            _ => format!("select {function}('{}', '{template}')", self.pick(&TEXTS)),
        }
    }
}
