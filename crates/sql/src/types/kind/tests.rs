//! Types by their names, oids and categories.

use super::*;

#[test]
fn oids_and_names_lead_back_to_the_type() {
    for &kind in Type::BUILT_IN {
        assert_eq!(Type::from_oid(kind.oid()), Some(kind));
        let name = kind.internal_name().unwrap();
        if name != "char" {
            assert_eq!(Type::from_name(&name), Some(kind), "{name}");
            assert_eq!(Type::from_name(&kind.sql_name().unwrap()), Some(kind), "{name}");
        }
        if let Some(array) = kind.array() {
            assert_eq!(Type::from_oid(array.oid()), Some(array));
            assert_eq!(array.element(), Some(kind));
            assert_eq!(Type::from_name(&array.internal_name().unwrap()), Some(array));
        }
    }
}

#[test]
fn enums_and_their_arrays_have_oids_side_by_side() {
    let color = Type::Enum(16400);
    let colors = color.array().unwrap();
    assert_eq!(colors.oid(), 16401);
    assert_eq!(Type::from_oid(16401), Some(colors));
    assert_eq!(colors.element(), Some(color));
    assert_eq!(colors.category(), Category::Array);
}

#[test]
fn modifiers_pack_precision_and_scale() {
    assert_eq!(Modifier::numeric(10, 2).0, 655366);
    assert_eq!(Modifier::numeric(10, 2).numeric_parts(), Some((10, 2)));
    assert_eq!(Modifier::numeric(3, -5).numeric_parts(), Some((3, -5)));
    assert_eq!(Modifier::length(10).characters(), Some(10));
    assert_eq!(Modifier::NONE.characters(), None);
}

#[test]
fn types_print_with_their_modifiers() {
    let none = |_| None;
    assert_eq!(format_type(Type::Varchar, Modifier::length(3), &none), "character varying(3)");
    assert_eq!(format_type(Type::Bpchar, Modifier::NONE, &none), "bpchar");
    assert_eq!(format_type(Type::array_of(Type::Numeric), Modifier::numeric(5, 1), &none), "numeric(5,1)[]");
    assert_eq!(format_type(Type::Timestamptz, Modifier(3), &none), "timestamp(3) with time zone");
    assert_eq!(format_type(Type::Enum(16400), Modifier::NONE, &|_| Some("color".into())), "color");
}
