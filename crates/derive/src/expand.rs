//! The implementation of `heddledb::TableRow` for a struct.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::DeriveInput;
use syn::spanned::Spanned;

use crate::attributes::{Column, Table};

/// Writes it.
pub fn expand(input: &DeriveInput, table: &Table) -> TokenStream {
    let row = &input.ident;
    let definition = definition(table);
    let count = table.columns.len();
    let names = table.columns.iter().map(|column| &column.name);
    let fields: Vec<_> = table.columns.iter().map(|column| &column.field).collect();
    let reads = table.columns.iter().enumerate().map(|(position, column)| {
        let (field, field_type) = (&column.field, &column.field_type);
        quote_spanned!(field_type.span()=> #field: row.field::<#field_type>(#position)?)
    });
    quote! {
        #[automatically_derived]
        impl ::heddledb::TableRow for #row {
            type Values<'v> = [::heddledb::ValueRef<'v>; #count];

            fn definition() -> ::heddledb::TableDefinition {
                #definition
            }

            #[inline]
            fn shape() -> &'static ::heddledb::RowShape {
                static SHAPE: ::heddledb::RowShape = ::heddledb::RowShape::new(&[#(#names),*]);
                &SHAPE
            }

            #[inline]
            fn values(&self) -> [::heddledb::ValueRef<'_>; #count] {
                [#(::heddledb::AsValue::as_value(&self.#fields)),*]
            }

            #[inline]
            fn from_columns(row: &::heddledb::Row<'_>) -> ::heddledb::Result<Self> {
                ::core::result::Result::Ok(#row { #(#reads),* })
            }
        }
    }
}

fn definition(table: &Table) -> TokenStream {
    let Table { name, key, routing, .. } = table;
    let columns = table.columns.iter().map(column);
    let primary_index = table.primary_index.map(|kind| {
        let kind = format_ident!("{kind}");
        quote!(.primary_index(::heddledb::PrimaryIndex::#kind))
    });
    let indexes = table.indexes.iter().map(|index| {
        let (name, columns) = (&index.name, &index.columns);
        let method = format_ident!("{}", if index.is_unique { "unique_index" } else { "index" });
        quote!(.#method(#name, [#(#columns),*]))
    });
    let checks = table.checks.iter().map(|(name, condition)| quote!(.check(#name, #condition)));
    let foreign_keys = table.columns.iter().filter_map(|column| {
        let (column, referenced) = (&column.name, column.foreign_key.as_ref()?);
        let foreign_key = format!("{name}_{column}_fkey");
        Some(quote!(.foreign_key(::heddledb::ForeignKey::new(#foreign_key, [#column], #referenced))))
    });
    let routing = (!routing.is_empty()).then(|| quote!(.routing([#(#routing),*])));
    quote! {
        ::heddledb::TableDefinition::new(#name)
            #(#columns)*
            .primary_key([#(#key),*])
            #primary_index
            #(#indexes)*
            #(#checks)*
            #(#foreign_keys)*
            #routing
    }
}

fn column(column: &Column) -> TokenStream {
    let Column { name, field_type, data_type, default, references, identity, .. } = column;
    let declared = match data_type {
        Some(text) => quote_spanned!(text.span()=> .column_of(#name, #text)),
        None => {
            quote_spanned!(field_type.span()=> .column(#name, <#field_type as ::heddledb::ColumnType>::data_type()))
        }
    };
    let not_null = (!column.is_nullable).then(|| quote!(.not_null()));
    let default = default.as_ref().map(|default| quote!(.default(#default)));
    let references = references.as_ref().map(|table| quote!(.references(#table)));
    let identity = identity.map(|kind| {
        let kind = format_ident!("{kind}");
        quote!(.identity(::heddledb::Identity::#kind))
    });
    quote!(#declared #not_null #default #references #identity)
}
