//! The implementation of `heddledb::Composite` and `heddledb::Parameters` for a struct.
//!
//! A struct with texts or bytes among its fields gets a twin, called `…Ref`, which borrows them: so that reading the arguments of a
//! call copies nothing.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{DeriveInput, Error, Field, GenericArgument, Ident, LitStr, PathArguments, Result, Type};

use crate::attributes::named_fields;

/// A field of the struct.
struct Member {
    name: Ident,
    of: Type,
    /// Its type in the twin, if that borrows it.
    borrowed: Option<TokenStream>,
    data_type: Option<LitStr>,
}

/// Reads the struct, and writes the implementations.
pub fn expand(input: &DeriveInput) -> Result<TokenStream> {
    if let Some(generics) = input.generics.params.first() {
        let message =
            "a composite has no generic parameters: leave them out; texts are fields of type `String`";
        return Err(Error::new(generics.span(), message));
    }
    let members = named_fields(input)?.iter().map(member).collect::<Result<Vec<_>>>()?;
    if members.is_empty() {
        return Err(Error::new(input.ident.span(), "a composite needs at least one field: add it"));
    }
    let (reading, parameters) = (reading(input, &members), parameters(&input.ident, &members));
    Ok(quote!(#reading #parameters))
}

fn member(field: &Field) -> Result<Member> {
    let Some(name) = &field.ident else {
        return Err(Error::new(field.span(), "a field needs a name: add it"));
    };
    let mut data_type = None;
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("composite")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("data_type") {
                return Err(meta.error("there is no such attribute of a field: write `data_type = \"…\"`"));
            }
            data_type = Some(meta.value()?.parse()?);
            Ok(())
        })?;
    }
    Ok(Member { name: name.clone(), of: field.ty.clone(), borrowed: borrowed(&field.ty), data_type })
}

/// The implementation of `Composite`, the twin if there is one, and the conversion into arguments.
fn reading(input: &DeriveInput, members: &[Member]) -> TokenStream {
    let (composite, count) = (&input.ident, members.len());
    let fields: Vec<_> = members.iter().map(|member| &member.name).collect();
    let values: Vec<_> =
        (0..count).map(|number| Ident::new(&format!("value_{number}"), Span::mixed_site())).collect();
    let read = |of: &TokenStream, member: &Member, value: &Ident| {
        let (field, name) = (&member.name, shown(&member.name));
        quote_spanned!(member.of.span()=> #field: ::heddledb::read_field::<#of>(#value, #name)?)
    };
    let owned = members.iter().zip(&values).map(|(member, value)| {
        let of = &member.of;
        read(&quote!(#of), member, value)
    });
    let has_twin = members.iter().any(|member| member.borrowed.is_some());
    let (twin, reference, borrow) = if has_twin {
        let name = format_ident!("{composite}Ref");
        let types: Vec<_> = members.iter().map(type_in_twin).collect();
        let reads =
            members.iter().zip(&types).zip(&values).map(|((member, of), value)| read(of, member, value));
        let (visibility, doc) =
            (&input.vis, format!("A [`{composite}`] whose texts and bytes are borrowed."));
        let twin = quote! {
            #[doc = #doc]
            #[derive(Clone, Debug)]
            #[allow(dead_code)]
            #visibility struct #name<'v> {
                #(#[doc(hidden)] pub #fields: #types,)*
            }
        };
        let borrow = quote! {
            let [#(#values),*] = values else { return ::heddledb::wrong_number(#count, values.len()) };
            ::core::result::Result::Ok(#name { #(#reads),* })
        };
        (twin, quote!(#name<'v>), borrow)
    } else {
        (quote!(), quote!(Self), quote!(Self::from_values(values)))
    };
    quote! {
        #twin

        #[automatically_derived]
        impl ::heddledb::Composite for #composite {
            type Ref<'v> = #reference;

            #[inline(always)]
            fn borrow_from<'v>(values: &'v [::heddledb::Value]) -> ::heddledb::Result<Self::Ref<'v>> {
                #borrow
            }

            #[inline(always)]
            fn from_values(values: &[::heddledb::Value]) -> ::heddledb::Result<Self> {
                let [#(#values),*] = values else { return ::heddledb::wrong_number(#count, values.len()) };
                ::core::result::Result::Ok(#composite { #(#owned),* })
            }
        }

        #[automatically_derived]
        impl ::core::convert::From<#composite> for ::heddledb::Args {
            #[inline]
            fn from(values: #composite) -> ::heddledb::Args {
                let mut args = <::heddledb::Args as ::core::default::Default>::default();
                #(args.push(values.#fields);)*
                args
            }
        }
    }
}

/// The implementation of `Parameters`.
fn parameters(composite: &Ident, members: &[Member]) -> TokenStream {
    let entries = members.iter().map(|Member { name, of, data_type, .. }| {
        let name = shown(name);
        match data_type {
            Some(text) => quote_spanned!(text.span()=> (#name.into(), #text.parse()?)),
            None => {
                quote_spanned!(of.span()=> (#name.into(), <#of as ::heddledb::ColumnType>::data_type()))
            }
        }
    });
    quote! {
        #[automatically_derived]
        impl ::heddledb::Parameters for #composite {
            fn parameters() -> ::heddledb::Result<::std::vec::Vec<(::std::string::String, ::heddledb::DataType)>> {
                ::core::result::Result::Ok(::std::vec![#(#entries),*])
            }
        }
    }
}

fn shown(name: &Ident) -> String {
    name.to_string().trim_start_matches("r#").to_string()
}

fn type_in_twin(member: &Member) -> TokenStream {
    let of = &member.of;
    member.borrowed.clone().unwrap_or_else(|| quote!(#of))
}

/// The borrowed type of a text or of bytes, also in an `Option`. `None` for other types.
fn borrowed(of: &Type) -> Option<TokenStream> {
    let Type::Path(path) = of else { return None };
    let last = path.path.segments.last()?;
    let argument = match &last.arguments {
        PathArguments::AngleBracketed(arguments) => match arguments.args.first() {
            Some(GenericArgument::Type(argument)) => Some(argument),
            _ => None,
        },
        _ => None,
    };
    match (last.ident.to_string().as_str(), argument) {
        ("String", None) => Some(quote!(&'v str)),
        ("Vec", Some(Type::Path(element))) if element.path.is_ident("u8") => Some(quote!(&'v [u8])),
        ("Option", Some(argument)) => {
            borrowed(argument).map(|borrowed| quote!(::core::option::Option<#borrowed>))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> String {
        let input = syn::parse_str(text).expect("a struct");
        expand(&input).map_or_else(|error| error.to_string(), |tokens| tokens.to_string())
    }

    #[test]
    fn a_struct_with_texts_gets_a_twin_that_borrows_them() {
        let plain = expanded("struct Transfer { from: i64, to: Option<u32> }");
        assert!(!plain.contains("TransferRef") && plain.contains("type Ref < 'v > = Self"), "{plain}");
        let texts = expanded("struct Post { id: i64, text: String, note: Option<String>, image: Vec<u8> }");
        for part in [
            "struct PostRef < 'v >",
            "pub id : i64",
            "pub text : & 'v str",
            "pub note : :: core :: option :: Option < & 'v str >",
            "pub image : & 'v [u8]",
        ] {
            assert!(texts.contains(part), "{part}: {texts}");
        }
    }

    #[test]
    fn other_vectors_and_options_stay_what_they_are() {
        assert!(borrowed(&syn::parse_str("Vec<i64>").expect("a type")).is_none());
        assert!(borrowed(&syn::parse_str("Option<i64>").expect("a type")).is_none());
        assert!(borrowed(&syn::parse_str("&'static str").expect("a type")).is_none());
        assert!(borrowed(&syn::parse_str("std::string::String").expect("a type")).is_some());
    }

    #[test]
    fn mistakes_name_the_way_out() {
        for (text, expected) in [
            ("struct A { }", "at least one field"),
            ("struct A(i64);", "fields with names"),
            ("enum A { B }", "takes no enum"),
            ("struct A<'a> { name: &'a str }", "`String`"),
            ("struct A { #[composite(type = \"text\")] id: i64 }", "data_type"),
        ] {
            let message = expanded(text);
            assert!(message.contains(expected), "{text}: {message}");
        }
    }
}
