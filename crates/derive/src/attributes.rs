//! The content of `#[table(…)]`, on the struct and on its fields.

use syn::meta::ParseNestedMeta;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Expr, Field, Fields, Ident, LitStr, Result, Token, Type};

/// A struct that is to be a table's row.
pub struct Table {
    pub name: String,
    pub columns: Vec<Column>,
    pub key: Vec<String>,
    pub indexes: Vec<Index>,
    pub checks: Vec<(String, String)>,
    pub routing: Vec<String>,
    /// A name of `heddledb::PrimaryIndex`.
    pub primary_index: Option<&'static str>,
}

/// A field.
pub struct Column {
    pub field: Ident,
    pub field_type: Type,
    pub name: String,
    pub is_nullable: bool,
    pub data_type: Option<LitStr>,
    pub default: Option<Expr>,
    pub references: Option<String>,
    /// The table whose primary key this column must hold a value of.
    pub foreign_key: Option<String>,
    /// A name of `heddledb::Identity`.
    pub identity: Option<&'static str>,
}

/// A secondary index.
pub struct Index {
    pub name: String,
    pub columns: Vec<String>,
    pub is_unique: bool,
}

/// Reads a struct.
pub fn read(input: &DeriveInput) -> Result<Table> {
    let fields = named_fields(input)?;
    if let Some(generics) = input.generics.params.first() {
        return Err(Error::new(generics.span(), "a row's struct has no generic parameters: leave them out"));
    }
    let mut table = Table {
        name: snake_case(&input.ident.to_string()),
        columns: Vec::new(),
        key: Vec::new(),
        indexes: Vec::new(),
        checks: Vec::new(),
        routing: Vec::new(),
        primary_index: None,
    };
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("table")) {
        attribute.parse_nested_meta(|meta| read_of_struct(&mut table, &meta))?;
    }
    let key_of_struct = std::mem::take(&mut table.key);
    for field in fields {
        read_field(&mut table, field)?;
    }
    if !key_of_struct.is_empty() {
        table.key = key_of_struct;
    }
    if table.key.is_empty() {
        let message = "the table has no primary key: add `#[table(key)]` to the field that is it";
        return Err(Error::new(input.ident.span(), message));
    }
    let is_column = |name: &String| table.columns.iter().any(|column| column.name == *name);
    let of_indexes = table.indexes.iter().flat_map(|index| &index.columns);
    match table.key.iter().chain(&table.routing).chain(of_indexes).find(|name| !is_column(name)) {
        None => Ok(table),
        Some(unknown) => {
            let message = format!(
                "there is no column `{unknown}`: name the fields in keys, indexes and routing as they are"
            );
            Err(Error::new(input.ident.span(), message))
        }
    }
}

/// The fields of a struct that has names for them.
pub fn named_fields(input: &DeriveInput) -> Result<&Punctuated<Field, Token![,]>> {
    match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => Ok(&fields.named),
            _ => Err(Error::new(
                input.ident.span(),
                "this needs fields with names, which are the columns' names",
            )),
        },
        _ => Err(Error::new(
            input.ident.span(),
            "this must be a struct: the derive takes no enum and no union",
        )),
    }
}

fn read_of_struct(table: &mut Table, meta: &ParseNestedMeta<'_>) -> Result<()> {
    let Some(word) = meta.path.get_ident() else { return Err(unknown(meta, STRUCT_WORDS)) };
    match word.to_string().as_str() {
        "name" => table.name = meta.value()?.parse::<LitStr>()?.value(),
        "key" => table.key = names(meta)?,
        "routing" => table.routing = names(meta)?,
        "hash" => table.primary_index = Some("Hash"),
        "ordered" => table.primary_index = Some("Ordered"),
        "index" | "unique" => meta.parse_nested_meta(|index| {
            let name = index.path.require_ident()?.to_string();
            if name == "unique" {
                return Err(index.error("a unique index is an attribute of its own: `unique(name(columns))` instead of `index(unique …)`"));
            }
            table.indexes.push(Index { name, columns: names(&index)?, is_unique: word == "unique" });
            Ok(())
        })?,
        "check" => meta.parse_nested_meta(|check| {
            let name = check.path.require_ident()?.to_string();
            table.checks.push((name, check.value()?.parse::<LitStr>()?.value()));
            Ok(())
        })?,
        _ => return Err(unknown(meta, STRUCT_WORDS)),
    }
    Ok(())
}

fn read_field(table: &mut Table, field: &Field) -> Result<()> {
    let Some(ident) = &field.ident else { return Err(Error::new(field.span(), "a column needs a name")) };
    let mut column = Column {
        field: ident.clone(),
        field_type: field.ty.clone(),
        name: ident.to_string().trim_start_matches("r#").to_string(),
        is_nullable: is_option(&field.ty),
        data_type: None,
        default: None,
        references: None,
        foreign_key: None,
        identity: None,
    };
    let (mut is_key, mut index, mut check) = (false, None, None);
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("table")) {
        attribute.parse_nested_meta(|meta| {
            let Some(word) = meta.path.get_ident() else { return Err(unknown(&meta, FIELD_WORDS)) };
            match word.to_string().as_str() {
                "index" | "unique" if meta.input.peek(syn::token::Paren) => {
                    let message = "on a field write `index` or `unique`, for this column alone; an index of several columns is an attribute of the \
                                   struct: `#[table(index(name(a, b)))]`, `#[table(unique(name(a, b)))]`";
                    return Err(meta.error(message));
                }
                "key" => is_key = true,
                "index" => index = Some(false),
                "unique" => index = Some(true),
                "name" => column.name = meta.value()?.parse::<LitStr>()?.value(),
                "data_type" => column.data_type = Some(meta.value()?.parse()?),
                "default" => column.default = Some(meta.value()?.parse()?),
                "references" => column.references = Some(meta.value()?.parse::<LitStr>()?.value()),
                "foreign_key" => column.foreign_key = Some(meta.value()?.parse::<LitStr>()?.value()),
                "check" => check = Some(meta.value()?.parse::<LitStr>()?.value()),
                "identity" => column.identity = Some(identity(&meta)?),
                _ => return Err(unknown(&meta, FIELD_WORDS)),
            }
            Ok(())
        })?;
    }
    if is_key && column.is_nullable {
        let message = "a column of the primary key cannot be NULL: leave out the `Option`";
        return Err(Error::new(field.ty.span(), message));
    }
    if is_key {
        table.key.push(column.name.clone());
    }
    if let Some(is_unique) = index {
        let name = format!("{}_{}", table.name, column.name);
        table.indexes.push(Index { name, columns: vec![column.name.clone()], is_unique });
    }
    if let Some(check) = check {
        table.checks.push((format!("{}_{}_check", table.name, column.name), check));
    }
    table.columns.push(column);
    Ok(())
}

const STRUCT_WORDS: &str = "`name = \"…\"`, `key(…)`, `index(name(…))`, `unique(name(…))`, `check(name = \"…\")`, `routing(…)`, `hash` or `ordered`";
const FIELD_WORDS: &str = "`key`, `identity`, `identity(always)`, `index`, `unique`, `default = …`, `check = \"…\"`, `references = \"…\"`, `foreign_key = \"…\"`, `data_type = \"…\"` or `name = \"…\"`";

fn unknown(meta: &ParseNestedMeta<'_>, words: &str) -> Error {
    meta.error(format!("this is no attribute of a table here; write {words}"))
}

/// `identity`, or `identity(always)`.
fn identity(meta: &ParseNestedMeta<'_>) -> Result<&'static str> {
    if !meta.input.peek(syn::token::Paren) {
        return Ok("ByDefault");
    }
    match names(meta)?.as_slice() {
        [word] if word == "always" => Ok("Always"),
        _ => Err(meta.error("write `identity` or `identity(always)`")),
    }
}

/// The names in parentheses behind a word.
fn names(meta: &ParseNestedMeta<'_>) -> Result<Vec<String>> {
    let content;
    syn::parenthesized!(content in meta.input);
    let names = Punctuated::<Ident, Token![,]>::parse_terminated(&content)?;
    Ok(names.iter().map(|name| name.to_string().trim_start_matches("r#").to_string()).collect())
}

fn is_option(field_type: &Type) -> bool {
    match field_type {
        Type::Path(path) => path.path.segments.last().is_some_and(|last| last.ident == "Option"),
        _ => false,
    }
}

/// `OrderLine` as `order_line`.
pub fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for (position, character) in name.trim_start_matches("r#").char_indices() {
        if character.is_uppercase() && position > 0 {
            snake.push('_');
        }
        snake.extend(character.to_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Result<Table> {
        read(&syn::parse_str(text)?)
    }

    fn refused(text: &str) -> String {
        table(text).err().map_or_else(|| "it was read".to_string(), |error| error.to_string())
    }

    #[test]
    fn fields_are_columns_and_options_are_nullable() {
        let table = table(
            "struct OrderLine { #[table(key)] order: i64, #[table(key)] line: i32, note: Option<String> }",
        )
        .unwrap();
        assert_eq!(table.name, "order_line");
        assert_eq!(table.key, ["order", "line"]);
        let columns: Vec<_> =
            table.columns.iter().map(|column| (column.name.as_str(), column.is_nullable)).collect();
        assert_eq!(columns, [("order", false), ("line", false), ("note", true)]);
    }

    #[test]
    fn attributes_of_the_struct_are_read() {
        let table = table(
            "#[table(name = \"sales\", key(shop, id), routing(shop), hash)]
             #[table(index(by_day(day, shop)), unique(by_code(code)), check(sold = \"n > 0\"))]
             struct Sale { id: i64, shop: i64, day: Date, code: String, n: i64 }",
        )
        .unwrap();
        assert_eq!(
            (table.name.as_str(), &table.key[..], &table.routing[..]),
            ("sales", &["shop".into(), "id".into()][..], &["shop".into()][..])
        );
        assert_eq!(table.primary_index, Some("Hash"));
        let indexes: Vec<_> = table
            .indexes
            .iter()
            .map(|index| (index.name.as_str(), index.columns.len(), index.is_unique))
            .collect();
        assert_eq!(indexes, [("by_day", 2, false), ("by_code", 1, true)]);
        assert_eq!(table.checks, [("sold".to_string(), "n > 0".to_string())]);
    }

    #[test]
    fn attributes_of_fields_are_read() {
        let table = table(
            "struct Item { #[table(key)] id: i64, #[table(unique, name = \"kind\")] r#type: String,
             #[table(default = 0, check = \"n >= 0\", references = \"shop\", data_type = \"int32\")] n: i64 }",
        )
        .unwrap();
        assert_eq!(table.columns[1].name, "kind");
        assert_eq!((table.indexes[0].name.as_str(), table.indexes[0].is_unique), ("item_kind", true));
        assert!(table.columns[2].default.is_some() && table.columns[2].data_type.is_some());
        assert_eq!(table.columns[2].references.as_deref(), Some("shop"));
        assert_eq!(table.checks, [("item_n_check".to_string(), "n >= 0".to_string())]);
    }

    #[test]
    fn mistakes_name_the_way_out() {
        for (text, expected) in [
            ("struct A { id: i64 }", "#[table(key)]"),
            ("struct A { #[table(key)] id: Option<i64> }", "leave out the `Option`"),
            ("struct A { #[table(primary_key)] id: i64 }", "`key`"),
            ("#[table(primary(id))] struct A { id: i64 }", "`key(…)`"),
            ("#[table(key(number))] struct A { id: i64 }", "no column `number`"),
            ("#[table(index(by_n(n)))] struct A { #[table(key)] id: i64 }", "no column `n`"),
            ("struct A { #[table(key, identity(never))] id: i64 }", "`identity(always)`"),
            ("struct A(i64);", "fields with names"),
            ("enum A { B }", "takes no enum"),
            ("struct A<T> { #[table(key)] id: T }", "no generic parameters"),
        ] {
            let message = refused(text);
            assert!(message.contains(expected), "{text}: {message}");
        }
    }
}
