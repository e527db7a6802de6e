//! Operands that fit never fail, in whatever order and by whichever worker context; and what the short way for integers merges.

use super::*;

/// Gives operands to worker contexts as a split phase does: one that does not fit is kept back.
fn accepted(
    operation: Operation,
    base: &Value,
    given: &[(usize, Value)],
    data_type: &DataType,
    parties: usize,
) -> Vec<Vec<Value>> {
    let mut operands = vec![Vec::new(); parties];
    let mut totals: Vec<Option<Value>> = vec![None; parties];
    for (party, operand) in given {
        let party = party % parties;
        let Ok(operand) = operation.check_operand(operand.as_value_ref(), data_type) else { continue };
        let total = match &totals[party] {
            Some(total) => merge_checked(operation, total.as_value_ref(), operand, data_type),
            None => Ok(operand.to_value()),
        };
        let Ok(total) = total else { continue };
        if operation.fits(base.as_value_ref(), total.as_value_ref(), data_type, parties as u32) {
            operands[party].push(operand.to_value());
            totals[party] = Some(total);
        }
    }
    operands
}

/// A column of a type that has bounds, its value, operands with the worker context of each, and the number of worker contexts.
fn shared() -> impl Strategy<Value = (Operation, DataType, Value, Vec<(usize, Value)>, usize)> {
    let types = prop_oneof![
        Just(DataType::Int32),
        Just(DataType::Int64),
        (1_u8..=38)
            .prop_flat_map(|precision| (Just(precision), 0..=precision))
            .prop_map(|(precision, scale)| DataType::Decimal { precision, scale }),
        data_type(),
    ];
    (prop::sample::select(Operation::ALL), types)
        .prop_filter("it can be split", |(operation, of)| operation.splittable(of))
        .prop_flat_map(|(operation, of)| {
            let operand = match operation {
                Operation::Multiply => int(-4, 1 << 33).prop_map(Value::from).boxed(),
                _ => prop_oneof![operand(operation, &of), operand_near_a_bound(operation, &of)].boxed(),
            };
            let given = prop::collection::vec((0..8_usize, operand), 0..24);
            (Just(operation), Just(of.clone()), value(&of), given, 1..6_usize)
        })
}

/// Sums that use up a share in a few steps.
fn operand_near_a_bound(operation: Operation, data_type: &DataType) -> BoxedStrategy<Value> {
    let most = match *data_type {
        DataType::Int32 => i128::from(i32::MAX),
        DataType::Int64 => i128::from(i64::MAX),
        DataType::Decimal { precision, .. } => 10_i128.pow(precision.into()) - 1,
        _ => return operand(operation, data_type),
    };
    let of = data_type.clone();
    (-most / 3..=most / 3)
        .prop_map(move |unscaled| match of {
            DataType::Decimal { scale, .. } => Value::from(Decimal::new(unscaled, scale).unwrap()),
            _ => Value::from(unscaled as i64),
        })
        .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 100_000, ..ProptestConfig::with_cases(600) })]

    #[test]
    fn operands_that_fit_succeed_in_every_interleaving(
        (operation, data_type, base, given, parties) in shared(),
        choices in prop::collection::vec(any::<usize>(), 24),
    ) {
        let operands = accepted(operation, &base, &given, &data_type, parties);
        let mut next = vec![0; parties];
        let mut interleaved = base.clone();
        for choice in choices {
            let waiting: Vec<usize> = (0..parties).filter(|&party| next[party] < operands[party].len()).collect();
            let Some(&party) = waiting.get(choice % waiting.len().max(1)) else { break };
            let operand = operands[party][next[party]].as_value_ref();
            next[party] += 1;
            interleaved = apply_checked(operation, &interleaved, operand, &data_type)
                .map_err(|error| TestCaseError::fail(error.to_string()))?;
        }
        let fold = |operands: &[Value]| {
            let mut rest = operands.iter().cloned();
            let first = rest.next()?;
            Some(rest.fold(first, |merged, operand| {
                merge_checked(operation, merged.as_value_ref(), operand.as_value_ref(), &data_type).unwrap()
            }))
        };
        let totals: Vec<Value> = operands.iter().filter_map(|operands| fold(operands)).collect();
        let one_by_one = totals.iter().fold(base.clone(), |value, total| {
            apply_checked(operation, &value, total.as_value_ref(), &data_type).unwrap()
        });
        prop_assert_eq!(bits(Ok(one_by_one)), bits(Ok(interleaved.clone())));
        if let Some(all) = fold(&totals) {
            let at_once = apply_checked(operation, &base, all.as_value_ref(), &data_type);
            prop_assert_eq!(bits(at_once), bits(Ok(interleaved)));
        }
    }

    #[test]
    fn the_short_way_to_merge_integers_is_the_long_way(
        operation in prop::sample::select(Operation::ALL),
        first in int(i64::MIN, i64::MAX),
        second in int(i64::MIN, i64::MAX),
    ) {
        prop_assume!(operation.accepts(&DataType::Int64).is_ok());
        let long = merge_checked(operation, ValueRef::Int(first), ValueRef::Int(second), &DataType::Int64);
        match operation.merge_int(first, second) {
            Some(short) => prop_assert_eq!(long, Ok(Value::from(short))),
            None => prop_assert!(!matches!(long, Ok(Value::Int(_))), "{:?}", long),
        }
    }
}

fn fits(operation: Operation, base: Value, total: Value, text: &str, parties: u32) -> bool {
    operation.fits(base.as_value_ref(), total.as_value_ref(), &parse(text), parties)
}

#[test]
fn a_sum_fits_up_to_its_share_of_the_room_and_no_further() {
    let int = |base: i64, total: i64, text: &str, parties: u32| {
        fits(Operation::Add, Value::from(base), Value::from(total), text, parties)
    };
    let most = i64::from(i32::MAX);
    assert!(int(0, most, "int32", 1) && !int(1, most, "int32", 1) && int(1, most - 1, "int32", 1));
    assert!(int(0, most / 4, "int32", 4) && !int(0, most / 4 + 1, "int32", 4));
    assert!(int(0, -(most + 1) / 4, "int32", 4) && !int(0, -(most + 1) / 4 - 1, "int32", 4));
    assert!(int(most, 0, "int32", 9) && !int(most, 1, "int32", 9) && int(most, -most / 5, "int32", 9));
    assert!(int(i64::MAX, i64::MIN, "int64", 1) && int(i64::MAX, i64::MIN, "int64", 1));
    assert!(int(i64::MAX, i64::MIN, "int64", 1) && !int(i64::MAX - 1, 2, "int64", 1));
    assert!(fits(Operation::Add, Value::from(i64::MIN), decimal("18446744073709551615"), "int64", 1));
    assert!(!fits(Operation::Add, Value::from(i64::MIN), decimal("18446744073709551616"), "int64", 1));
    assert!(fits(Operation::Add, decimal("9.0"), decimal("0.3"), "decimal(2,1)", 3));
    assert!(!fits(Operation::Add, decimal("9.0"), decimal("0.4"), "decimal(2,1)", 3));
    assert!(fits(Operation::Add, decimal("9.0"), decimal("-6.3"), "decimal(2,1)", 3));
    assert!(!fits(Operation::Add, decimal("9.0"), decimal("-6.4"), "decimal(2,1)", 3));
    assert!(fits(Operation::Add, decimal("9"), Value::from(9), "decimal(2,0)", 10));
    assert!(
        !fits(Operation::Add, Value::Null, Value::from(1), "int64", 1),
        "no column that is split is NULL"
    );
}

/// Two shares of the room between the least and the greatest decimal would be more than an operand holds.
#[test]
fn sums_of_the_longest_decimals_can_still_be_merged() {
    let (least, most) = (Value::from(-Decimal::new(10_i128.pow(38) - 1, 0).unwrap()), 10_i128.pow(38) - 1);
    let share = |unscaled: i128| Value::from(Decimal::new(unscaled, 0).unwrap());
    assert!(fits(Operation::Add, least.clone(), share(most / 2), "decimal(38,0)", 2));
    assert!(!fits(Operation::Add, least.clone(), share(most / 2 + 1), "decimal(38,0)", 2));
    assert!(!fits(Operation::Add, least, share(most), "decimal(38,0)", u32::MAX));
}

#[test]
fn a_product_fits_up_to_its_root_of_the_room_and_zero_never_does() {
    let int = |base: i64, total: i64, text: &str, parties: u32| {
        fits(Operation::Multiply, Value::from(base), Value::from(total), text, parties)
    };
    assert!(int(1, 46_340, "int32", 2) && !int(1, 46_341, "int32", 2) && int(1, -46_340, "int32", 2));
    assert!(!int(2, 46_340, "int32", 2) && int(2, 46_340, "int64", 2));
    assert!(int(i64::MAX, 1, "int64", 99) && int(i64::MAX, -1, "int64", 99) && !int(i64::MAX, 2, "int64", 1));
    assert!(!int(i64::MIN, -1, "int64", 1), "its negative is beyond the type");
    assert!(!int(1, i64::MIN, "int64", 1));
    assert!(int(0, 1 << 31, "int64", 2) && !int(0, 1 << 32, "int64", 2), "of zero, as of one");
    for base in [0, 1, -1, i64::MAX] {
        assert!(!int(base, 0, "int64", 1), "{base}: what was multiplied by zero shows no overflow any more");
    }
    assert!(!fits(Operation::Multiply, Value::Null, Value::from(1), "int64", 1));
}

#[test]
fn what_keeps_a_side_always_fits() {
    for operation in [Operation::Max, Operation::Min] {
        assert!(fits(operation, Value::from(i64::MAX), Value::from(i64::MIN), "int64", u32::MAX));
    }
}
