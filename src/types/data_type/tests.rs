//! Types print as text that parses to the same type, and types out of bounds are refused.

use proptest::prelude::*;

use super::*;
use crate::types::strategies::data_type;

fn parse(text: &str) -> Result<DataType> {
    text.parse()
}

#[test]
fn every_type_has_its_text() {
    let of = TupleType::new(
        vec![DataType::Int64, DataType::Decimal { precision: 10, scale: 2 }],
        vec![DataType::Timestamp, DataType::Text],
    )
    .unwrap();
    let order_only = TupleType::new(vec![DataType::Int64], vec![]).unwrap();
    for (data_type, text) in [
        (DataType::Bool, "bool"),
        (DataType::Int32, "int32"),
        (DataType::Int64, "int64"),
        (DataType::Float64, "float64"),
        (DataType::Decimal { precision: 38, scale: 38 }, "decimal(38,38)"),
        (DataType::Text, "text"),
        (DataType::Bytes, "bytes"),
        (DataType::Date, "date"),
        (DataType::Timestamp, "timestamp"),
        (DataType::Uuid, "uuid"),
        (DataType::OrderedTuple(of.clone()), "ordered_tuple(int64, decimal(10,2); timestamp, text)"),
        (DataType::TopK { limit: 100, of }, "top_k(100; int64, decimal(10,2); timestamp, text)"),
        (DataType::OrderedTuple(order_only.clone()), "ordered_tuple(int64)"),
        (DataType::TopK { limit: 1, of: order_only }, "top_k(1; int64)"),
    ] {
        assert_eq!(data_type.to_string(), text);
        assert_eq!(parse(text).unwrap(), data_type);
    }
}

#[test]
fn spaces_do_not_matter() {
    assert_eq!(parse(" decimal ( 10 , 2 ) ").unwrap(), parse("decimal(10,2)").unwrap());
    assert_eq!(
        parse("top_k( 5 ;int64,decimal( 4 ,1 ),text;date )").unwrap(),
        parse("top_k(5; int64, decimal(4,1), text; date)").unwrap()
    );
}

#[test]
fn what_is_no_type_is_refused_with_an_example() {
    for text in [
        "",
        "int",
        "INT64",
        "int64()",
        "decimal",
        "decimal(10)",
        "decimal(10,2",
        "decimal(+10,2)",
        "decimal(,)",
        "decimal(1000,2)",
        "decimal(10,2,1)",
        "text(5)",
        "ordered_tuple()",
        "ordered_tuple(;text)",
        "ordered_tuple(int64;)",
        "ordered_tuple(int64,)",
        "ordered_tuple(int64; text; text)",
        "top_k(int64)",
        "top_k(; int64)",
        "top_k(-1; int64)",
        "top_k(5)",
        "(",
        ")",
        "ordered_tuple(decimal(1,0)",
        "ordered_tuple(ordered_tuple(int64))",
        "ordered_tuple(decimal(1,0)x)",
        "top_k(99999999999; int64)",
    ] {
        let error = parse(text).unwrap_err();
        assert!(matches!(error, Error::InvalidType { .. }), "{text}: {error}");
    }
    assert!(parse("int").unwrap_err().to_string().contains("int64"));
}

#[test]
fn numbers_out_of_bounds_are_refused() {
    for text in [
        "decimal(0,0)",
        "decimal(39,0)",
        "decimal(5,6)",
        "top_k(0; int64)",
        "top_k(2000000; int64)",
        "ordered_tuple(decimal(39,0))",
        "top_k(5; int64; decimal(2,3))",
    ] {
        let error = parse(text).unwrap_err();
        assert!(matches!(error, Error::InvalidType { .. }), "{text}: {error}");
        assert!(error.to_string().contains("its "), "{error}");
    }
    assert!(DataType::Decimal { precision: 39, scale: 0 }.validate().is_err());
    assert!(DataType::Decimal { precision: 38, scale: 0 }.validate().is_ok());
}

#[test]
fn entries_have_an_order_and_scalar_members() {
    let inner = TupleType::new(vec![DataType::Int64], vec![]).unwrap();
    let nested = DataType::OrderedTuple(inner.clone());
    let top_k = DataType::TopK { limit: 5, of: inner };
    assert!(!nested.is_scalar() && !top_k.is_scalar() && DataType::Text.is_scalar());
    assert!(TupleType::new(vec![], vec![DataType::Text]).is_err());
    assert!(TupleType::new(vec![nested], vec![]).is_err());
    assert!(TupleType::new(vec![DataType::Int64], vec![top_k]).is_err());
    assert!(TupleType::new(vec![DataType::Decimal { precision: 0, scale: 0 }], vec![]).is_err());
}

proptest! {
    #[test]
    fn the_text_of_a_type_is_that_type(data_type in data_type()) {
        prop_assert!(data_type.validate().is_ok());
        prop_assert_eq!(parse(&data_type.to_string()).unwrap(), data_type);
    }

    #[test]
    fn any_text_is_a_valid_type_or_an_error(
        text in "(top_k|ordered_tuple|decimal|text)?[(),;0-9 ]{0,4}(int64|decimal\\(3,1\\))?[(),;0-9é ]{0,6}"
    ) {
        if let Ok(data_type) = parse(&text) {
            prop_assert!(data_type.validate().is_ok());
            prop_assert_eq!(parse(&data_type.to_string()).unwrap(), data_type);
        }
    }
}
