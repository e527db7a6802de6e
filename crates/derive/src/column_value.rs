//! The implementation of `heddledb::ColumnValue` for enums without fields, and for structs around one value.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, LitStr, Result};

/// Writes it.
pub fn expand(input: &DeriveInput) -> Result<TokenStream> {
    if let Some(generics) = input.generics.params.first() {
        return Err(Error::new(generics.span(), "a column's type has no generic parameters: leave them out"));
    }
    match &input.data {
        Data::Enum(_) => of_enum(input).map(|own| with_column(input, own)),
        Data::Struct(data) => match &data.fields {
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
                Ok(with_column(input, of_struct(input, &fields.unnamed[0].ty)))
            }

            _ => Err(Error::new(
                input.ident.span(),
                "a struct as a column is a struct around one value: `struct Id(i64);`",
            )),
        },
        Data::Union(_) => Err(Error::new(input.ident.span(), "a union cannot be a column")),
    }
}

/// The implementations that are the same for all types.
fn with_column(input: &DeriveInput, own: TokenStream) -> TokenStream {
    let name = &input.ident;
    quote! {
        #own

        #[automatically_derived]
        impl ::heddledb::StoredType for #name {
            #[inline]
            fn read(row: &::heddledb::Row<'_>, position: usize) -> ::heddledb::Result<Self> {
                ::heddledb::read_column_value(row, position)
            }
        }

        #[automatically_derived]
        impl ::heddledb::ColumnType for #name {
            fn data_type() -> ::heddledb::DataType {
                <#name as ::heddledb::ColumnValue>::data_type()
            }
        }
    }
}

/// Returns true if the enum is stored as the integers of its variants: `#[column(integer)]`.
fn is_integer(input: &DeriveInput) -> Result<bool> {
    let mut is_integer = false;
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("column")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("integer") {
                is_integer = true;
                return Ok(());
            }
            Err(meta
                .error("an enum has the attribute `#[column(integer)]`, or none: then it is stored as text"))
        })?;
    }
    Ok(is_integer)
}

/// An enum: as the names of its variants, or as their integers.
fn of_enum(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Enum(data) = &input.data else { return Ok(TokenStream::new()) };
    let (name, is_integer) = (&input.ident, is_integer(input)?);
    let read_as = format!("a {name}");
    let (mut to, mut from) = (Vec::new(), Vec::new());
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            return Err(Error::new(variant.span(), "a column holds one value: give the variant no fields"));
        }
        let ident = &variant.ident;
        let mut text = crate::attributes::snake_case(&ident.to_string());
        for attribute in variant.attrs.iter().filter(|attribute| attribute.path().is_ident("column")) {
            attribute.parse_nested_meta(|meta| {
                if !meta.path.is_ident("name") {
                    return Err(meta.error("a variant has the attribute `#[column(name = \"…\")]`"));
                }
                text = meta.value()?.parse::<LitStr>()?.value();
                Ok(())
            })?;
        }
        if is_integer {
            to.push(quote!(#name::#ident => ::heddledb::ValueRef::from(#name::#ident as i32)));
            from.push(quote!(::heddledb::ValueRef::Int(number) if number == i64::from(#name::#ident as i32) => #name::#ident));
        } else {
            to.push(quote!(#name::#ident => ::heddledb::ValueRef::Text(#text)));
            from.push(quote!(::heddledb::ValueRef::Text(#text) => #name::#ident));
        }
    }
    let data_type = if is_integer { quote!(Int32) } else { quote!(Text) };
    Ok(quote! {
        #[automatically_derived]
        impl<'v> ::heddledb::AsValue<'_, 'v> for #name {
            #[inline]
            fn as_value(&self) -> ::heddledb::ValueRef<'v> {
                match self { #(#to,)* }
            }
        }

        #[automatically_derived]
        impl ::heddledb::ColumnValue for #name {
            fn data_type() -> ::heddledb::DataType {
                ::heddledb::DataType::#data_type
            }

            fn from_value(value: ::heddledb::ValueRef<'_>) -> ::heddledb::Result<Self> {
                ::core::result::Result::Ok(match value {
                    #(#from,)*
                    other => return ::core::result::Result::Err(::heddledb::wrong_column_value(other, #read_as)),
                })
            }
        }
    })
}

/// A struct around one value: as that value.
fn of_struct(input: &DeriveInput, inner: &syn::Type) -> TokenStream {
    let name = &input.ident;
    let as_value = quote_spanned!(inner.span()=> ::heddledb::AsValue::as_value(&self.0));
    quote! {
        #[automatically_derived]
        impl<'s> ::heddledb::AsValue<'s, 's> for #name {
            #[inline]
            fn as_value(&'s self) -> ::heddledb::ValueRef<'s> {
                #as_value
            }
        }

        #[automatically_derived]
        impl ::heddledb::ColumnValue for #name {
            fn data_type() -> ::heddledb::DataType {
                <#inner as ::heddledb::ColumnType>::data_type()
            }

            #[inline]
            fn from_value(value: ::heddledb::ValueRef<'_>) -> ::heddledb::Result<Self> {
                <#inner as ::core::convert::TryFrom<::heddledb::ValueRef<'_>>>::try_from(value).map(#name)
            }
        }
    }
}
