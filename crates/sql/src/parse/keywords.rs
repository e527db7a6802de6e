//! Keywords: the words of the grammar that may be names, and the places where they may. The lists are PostgreSQL 15's
//! (appendix C).

/// Words that are never a name unless quoted.
const RESERVED: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "column",
    "constraint",
    "create",
    "current_catalog",
    "current_date",
    "current_role",
    "current_time",
    "current_timestamp",
    "current_user",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "from",
    "grant",
    "group",
    "having",
    "in",
    "initially",
    "intersect",
    "into",
    "lateral",
    "leading",
    "limit",
    "localtime",
    "localtimestamp",
    "not",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "placing",
    "primary",
    "references",
    "returning",
    "select",
    "session_user",
    "some",
    "symmetric",
    "table",
    "then",
    "to",
    "trailing",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "variadic",
    "when",
    "where",
    "window",
    "with",
];

/// Words that may name functions and types, but not columns and tables.
const FUNCTIONS_ONLY: &[&str] = &[
    "authorization",
    "binary",
    "collation",
    "concurrently",
    "cross",
    "current_schema",
    "freeze",
    "full",
    "ilike",
    "inner",
    "is",
    "isnull",
    "join",
    "left",
    "like",
    "natural",
    "notnull",
    "outer",
    "overlaps",
    "right",
    "similar",
    "tablesample",
    "verbose",
];

/// Words that may name columns and tables, but not functions.
const COLUMNS_ONLY: &[&str] = &[
    "between",
    "bigint",
    "bit",
    "boolean",
    "char",
    "character",
    "coalesce",
    "dec",
    "decimal",
    "exists",
    "extract",
    "float",
    "greatest",
    "grouping",
    "inout",
    "int",
    "integer",
    "interval",
    "least",
    "national",
    "nchar",
    "none",
    "normalize",
    "nullif",
    "numeric",
    "out",
    "overlay",
    "position",
    "precision",
    "real",
    "row",
    "setof",
    "smallint",
    "substring",
    "time",
    "timestamp",
    "treat",
    "trim",
    "values",
    "varchar",
    "xmlattributes",
    "xmlconcat",
    "xmlelement",
    "xmlexists",
    "xmlforest",
    "xmlnamespaces",
    "xmlparse",
    "xmlpi",
    "xmlroot",
    "xmlserialize",
    "xmltable",
];

/// Words that end an expression: after one they are no alias unless AS is between.
const NEVER_BARE_ALIAS: &[&str] = &[
    "array",
    "as",
    "char",
    "character",
    "create",
    "day",
    "except",
    "fetch",
    "filter",
    "for",
    "from",
    "grant",
    "group",
    "having",
    "hour",
    "intersect",
    "into",
    "isnull",
    "limit",
    "minute",
    "month",
    "notnull",
    "offset",
    "on",
    "order",
    "over",
    "overlaps",
    "precision",
    "returning",
    "second",
    "to",
    "union",
    "varying",
    "where",
    "window",
    "with",
    "within",
    "without",
    "year",
];

fn among(words: &[&str], word: &str) -> bool {
    words.binary_search(&word).is_ok()
}

/// Returns true if a word may name a column or a table.
pub(super) fn may_name_column(word: &str) -> bool {
    !among(RESERVED, word) && !among(FUNCTIONS_ONLY, word)
}

/// Returns true if a word may name a function.
pub(super) fn may_name_function(word: &str) -> bool {
    !among(RESERVED, word) && !among(COLUMNS_ONLY, word)
}

/// Returns true if a word may follow an expression as its alias, without AS.
pub(super) fn may_be_bare_alias(word: &str) -> bool {
    !among(NEVER_BARE_ALIAS, word)
}

/// A name as it has to be written in SQL: quoted if it would otherwise be read differently.
pub(crate) fn quote_identifier(name: &str) -> String {
    let mut characters = name.bytes();
    let plain = characters.next().is_some_and(|first| first == b'_' || first.is_ascii_lowercase())
        && characters.all(|byte| byte == b'_' || byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if plain && may_name_column(name) && !among(COLUMNS_ONLY, name) {
        name.to_string()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// A name with its schema, as it has to be written in SQL.
pub(crate) fn qualified_name(schema: &str, name: &str) -> String {
    format!("{}.{}", quote_identifier(schema), quote_identifier(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted() {
        for list in [RESERVED, FUNCTIONS_ONLY, COLUMNS_ONLY, NEVER_BARE_ALIAS] {
            assert!(list.is_sorted(), "{list:?}");
        }
    }

    #[test]
    fn names_are_quoted_where_they_must_be() {
        assert_eq!(quote_identifier("account_1"), "account_1");
        assert_eq!(quote_identifier("select"), "\"select\"");
        assert_eq!(quote_identifier("between"), "\"between\"");
        assert_eq!(quote_identifier("Upper"), "\"Upper\"");
        assert_eq!(quote_identifier("1st"), "\"1st\"");
        assert_eq!(quote_identifier("a\"b"), "\"a\"\"b\"");
    }
}
