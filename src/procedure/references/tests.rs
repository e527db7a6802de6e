//! The references that calls of real procedures have, against the conditions that they stand for.

use crate::database::Database;
use crate::error::{Error, Result};
use crate::options::{Durability, Options};
use crate::procedure::{Action, Predicate, Procedure, ProcedureDefinition};
use crate::protocol::footprint::Footprint;
use crate::schedule::ScheduleKind;
use crate::schedule::reference::{Attribute, Collector, Form, References, Scalar, Term};
use crate::storage::definition::TableDefinition;
use crate::table::Table;
use crate::types::DataType::{Int32, Int64, Text};
use crate::types::{Args, DataType};
use crate::{ScheduleOptions, args, row};

const LITERAL: Form = Form { canonical: false, whole: false };
const CANONICAL: Form = Form { canonical: true, whole: false };

/// A conjunction: attributes by the parts of their names, with their values.
type Conjunction<'c> = &'c [(&'c [&'c str], Term)];

fn is(value: i64) -> Term {
    Term::Equal(Scalar::of_int(value))
}

fn expected(form: Form, conjunctions: &[Conjunction<'_>]) -> Vec<u64> {
    let mut references = References::default();
    let mut collector = Collector::new(form, &mut references);
    for conjunction in conjunctions {
        conjunction.iter().for_each(|(name, term)| collector.condition(Attribute::named(name), *term));
        collector.end_conjunction();
    }
    sorted(&references)
}

fn sorted(references: &References) -> Vec<u64> {
    let mut all = references.as_slice().to_vec();
    all.sort_unstable();
    all
}

fn found(procedure: &Procedure, args: &Args, form: Form) -> Result<Vec<u64>> {
    let (mut footprint, mut references) = (Footprint::default(), References::default());
    let routine = procedure.routine();
    routine.footprint(args, &mut footprint)?;
    routine.references(args, &footprint, form, &mut references)?;
    Ok(sorted(&references))
}

struct Shop {
    db: Database,
    stock: Table,
    district: Table,
    order: Table,
}

fn shop(options: Options) -> Shop {
    let db = Database::in_memory_with(options.durability(Durability::None)).expect("it opens");
    let table = |definition| db.create_table(definition).expect("it is made");
    table(TableDefinition::new("warehouse").column("w_id", Int64).primary_key(["w_id"]));
    table(TableDefinition::new("item").column("i_id", Int64).primary_key(["i_id"]));
    let stock = TableDefinition::new("stock").column("s_w_id", Int64).references("warehouse");
    let stock = stock.column("s_i_id", Int64).references("item").column("s_quantity", Int64);
    let stock = table(stock.column("s_note", Text).primary_key(["s_w_id", "s_i_id"]));
    let district = TableDefinition::new("district").column("d_w_id", Int64).references("warehouse");
    let district = table(district.column("d_id", Int64).primary_key(["d_w_id", "d_id"]));
    let order = TableDefinition::new("orders").column("o_w_id", Int32).references("warehouse");
    let order = order.column("o_d_id", Int32).references("district").column("o_id", Int32);
    let order = table(order.primary_key(["o_w_id", "o_d_id", "o_id"]));
    Shop { stock, district, order, db }
}

/// The statement of the paper's figure 3: `UPDATE stock SET s_quantity = $1 WHERE s_i_id = $2 AND s_w_id = $3`.
fn update(shop: &Shop) -> Procedure {
    let definition = with_integers("update", 3)
        .refers_to(Predicate::on(&shop.stock).sets("s_quantity", |args| args.int(0)))
        .phase([Action::write(&shop.stock)
            .key(|args, key| {
                key.push(args.int(2)?)?;
                key.push(args.int(1)?)
            })
            .body(|_| Ok(()))]);
    shop.db.register(definition).expect("it is taken")
}

fn with_integers(name: &str, parameters: usize) -> ProcedureDefinition {
    (0..parameters).fold(ProcedureDefinition::new(name), |definition, number| {
        definition.parameter(format!("p{number}"), Int64)
    })
}

const QUANTITY: &[&str] = &["column", "stock", "s_quantity"];

#[test]
fn literally_each_column_names_itself() {
    let shop = shop(Options::default());
    let update = update(&shop);
    let conjunctions: &[Conjunction<'_>] = &[
        &[(&["column", "stock", "s_w_id"], is(5)), (&["column", "stock", "s_i_id"], is(2))],
        &[(QUANTITY, is(6))],
    ];
    for whole in [false, true] {
        let form = Form { whole, ..LITERAL };
        assert_eq!(found(&update, &args![6, 2, 5], form), Ok(expected(form, conjunctions)));
    }
    assert_eq!(found(&update, &args![6, 2, 5], LITERAL).unwrap().len(), 3);
    assert_eq!(found(&update, &args![6, 2, 5], Form { whole: true, ..LITERAL }).unwrap().len(), 2);
}

#[test]
fn canonically_they_are_named_by_what_they_reference() {
    let shop = shop(Options::default());
    let update = update(&shop);
    let conjunctions: &[Conjunction<'_>] =
        &[&[(&["table", "warehouse"], is(5)), (&["table", "item"], is(2))], &[(QUANTITY, is(6))]];
    for whole in [false, true] {
        let form = Form { whole, ..CANONICAL };
        assert_eq!(found(&update, &args![6, 2, 5], form), Ok(expected(form, conjunctions)));
    }
}

#[test]
fn a_district_is_the_same_one_wherever_it_is_referenced_and_however_wide_the_column() {
    let shop = shop(Options::default());
    let of = |table: &Table, columns: usize| {
        let action =
            Action::read(table).key(move |args, key| (0..columns).try_for_each(|at| key.push(args.int(at)?)));
        let definition = with_integers("of", 2).phase([action.body(|_| Ok(()))]);
        let procedure = shop.db.register(definition).expect("it is taken");
        found(&procedure, &args![7, 3], CANONICAL).expect("it fits")
    };
    assert_eq!(of(&shop.district, 2), of(&shop.order, 2));
    assert_eq!(of(&shop.district, 2).len(), 2, "the warehouse, and the district in it");
    assert_eq!(of(&shop.order, 1), expected(CANONICAL, &[&[(&["table", "warehouse"], is(7))]]));
    assert_eq!(of(&shop.order, 0), [], "a whole table has no condition");
}

#[test]
fn repeated_actions_have_references_for_each_instance_and_each_once() {
    let shop = shop(Options::default());
    let lines = Action::write(&shop.stock)
        .each(
            |args| Ok(args.int(0)? as usize),
            |args, line, key| {
                key.push(args.int(1)?)?;
                key.push(line as i64 % 3)
            },
        )
        .body(|_, _| Ok(()));
    let district = Action::read(&shop.district).key(|args, key| key.push(args.int(1)?)).body(|_| Ok(()));
    let definition = with_integers("order", 2).phase([district, lines]);
    let procedure = shop.db.register(definition).expect("it is taken");
    let all: &[Conjunction<'_>] = &[&[
        (&["table", "warehouse"], is(5)),
        (&["table", "item"], is(0)),
        (&["table", "item"], is(1)),
        (&["table", "item"], is(2)),
    ]];
    assert_eq!(found(&procedure, &args![9, 5], CANONICAL), Ok(expected(CANONICAL, all)));
    assert_eq!(found(&procedure, &args![0, 5], CANONICAL).unwrap().len(), 1);
    assert_eq!(found(&procedure, &args![9, 5], Form { whole: true, ..CANONICAL }).unwrap().len(), 4);
}

#[test]
fn predicates_say_what_keys_do_not() {
    let shop = shop(Options::default());
    let (stock, order) = (&shop.stock, &shop.order);
    let definition = ProcedureDefinition::new("p")
        .parameter("note", Text)
        .parameter("number", Int64)
        .refers_to(Predicate::on(stock).equals("s_note", |args| Ok(args.text(0)?.to_string())))
        .refers_to(
            Predicate::on(order).equals("o_w_id", |args| args.int(1)).equals("o_d_id", |args| args.int(1)),
        )
        .refers_to(Predicate::on(order).equals("o_d_id", |args| args.int(1)))
        .refers_to(Predicate::on(stock).between("s_quantity", |args| Ok((i64::MIN, args.int(1)?))))
        .refers_to(Predicate::on(stock).sets("s_i_id", |_| Ok(None::<i64>)))
        .phase([Action::write(stock).body(|_| Ok(()))]);
    let procedure = shop.db.register(definition).expect("it is taken");
    let mut references = References::default();
    let mut collector = Collector::new(CANONICAL, &mut references);
    let mut encoded = crate::types::key::EncodedKey::new();
    crate::types::key::encode_component(&mut encoded, "dear".into(), &Text, false).expect("it fits");
    let note = Term::Equal(Scalar::of_bytes(&encoded));
    collector.condition(Attribute::named(&["column", "stock", "s_note"]), note);
    collector.condition(Attribute::named(&["table", "warehouse"]), is(4));
    collector.composite(Attribute::named(&["table", "district"]), [4, 4].map(Scalar::of_int).into_iter());
    // A district without its warehouse is only a number.
    collector.condition(Attribute::named(&["column", "orders", "o_d_id"]), is(4));
    collector.condition(Attribute::named(QUANTITY), Term::Within(i64::MIN, 4));
    collector.condition(Attribute::named(&["table", "item"]), Term::Equal(Scalar::NULL));
    assert_eq!(found(&procedure, &args!["dear", 4], CANONICAL), Ok(sorted(&references)));
}

#[test]
fn byte_strings_in_keys_are_those_of_predicates_whatever_is_in_them() {
    let db = Database::in_memory_with(Options::default().durability(Durability::None)).expect("it opens");
    let definition =
        TableDefinition::new("t").column("a", DataType::Bytes).column("b", DataType::Bool).column("c", Int64);
    let table = db.create_table(definition.primary_key(["a", "b", "c"])).expect("it is made");
    let of = |name| ProcedureDefinition::new(name).parameter("a", DataType::Bytes).parameter("c", Int64);
    let keyed = Action::read(&table).key(|args, key| {
        key.push(args.bytes(0)?)?;
        key.push(true)?;
        key.push(args.int(1)?)
    });
    let keyed = db.register(of("keyed").phase([keyed.body(|_| Ok(()))])).expect("it is taken");
    let said = Predicate::on(&table).equals("a", |args| Ok(args.bytes(0)?.to_vec()));
    let said = said.equals("b", |_| Ok(true)).equals("c", |args| args.int(1));
    let said = of("said").refers_to(said).phase([Action::read(&table).body(|_| Ok(()))]);
    let said = db.register(said).expect("it is taken");
    for text in [&b""[..], b"plain", b"\0", b"a\0b", b"\0\0", b"\xFF\0", b"\0\xFF"] {
        for form in [LITERAL, CANONICAL] {
            let references = found(&keyed, &args![text, -1], form).unwrap();
            assert_eq!(references.len(), 3, "{text:?}");
            assert_eq!(Ok(references), found(&said, &args![text, -1], form), "{text:?}");
        }
    }
}

#[test]
fn what_cannot_be_spoken_of_is_refused_when_the_procedure_is_registered() {
    let shop = shop(Options::default());
    let register = |predicate: Predicate| {
        let definition = ProcedureDefinition::new("p").refers_to(predicate);
        shop.db.register(definition.phase([Action::read(&shop.stock).body(|_| Ok(()))])).err()
    };
    let on = || Predicate::on(&shop.stock);
    assert!(matches!(register(on().equals("nothing", |_| Ok(1))), Some(Error::UnknownColumn { .. })));
    let error = register(on().between("s_note", |_| Ok((1, 2)))).expect("a text has no interval of integers");
    assert!(error.to_string().contains("s_note"), "{error}");
    let other = self::shop(Options::default());
    assert!(matches!(register(Predicate::on(&other.stock)), Some(Error::ForeignTable { .. })));
    assert_eq!(register(on().equals("s_note", |_| Ok("x"))), None);
}

#[test]
fn the_partition_key_is_found_through_what_references_it() {
    let partition = |key: &str| shop(Options::default().schedule(ScheduleOptions::partition_by(key)));
    for key in ["w_id", "warehouse.w_id", "s_w_id"] {
        let shop = partition(key);
        let update = update(&shop);
        let mut footprint = Footprint::default();
        let arguments = args![6, 2, 5];
        update.routine().footprint(&arguments, &mut footprint).expect("it fits");
        let value = update.routine().partition_value(&arguments, &footprint);
        assert_eq!(value, Ok(Some(Scalar::of_int(5))), "{key}");
    }
    let shop = partition("i_id");
    let definition = ProcedureDefinition::new("none").phase([Action::read(&shop.district).body(|_| Ok(()))]);
    let procedure = shop.db.register(definition).expect("it is taken");
    let value = procedure.routine().partition_value(&args![], &Footprint::default());
    assert_eq!(value, Ok(None), "it does not tell");
    shop.db.run(|tx| tx.insert(&shop.district, row![1, 1])).expect("closures have no placement");
    shop.db.call(&procedure, args![]).expect("and the call goes somewhere");
    let shop = partition("nothing");
    let definition = ProcedureDefinition::new("p").phase([Action::read(&shop.stock).body(|_| Ok(()))]);
    let error = shop.db.register(definition).expect_err("there is no such column").to_string();
    assert!(error.contains("nothing") && error.contains("column"), "{error}");
}

#[test]
fn errors_and_panics_in_a_predicate_end_the_call_and_nothing_else() {
    let shop = shop(Options::default().schedule(ScheduleKind::Predict));
    let predicate = Predicate::on(&shop.stock).equals("s_i_id", |args| match args.int(0)? {
        0 => panic!("no item"),
        1 => Err(crate::transaction::fail("not this one")),
        item => Ok(item),
    });
    let definition = with_integers("p", 1).refers_to(predicate);
    let definition = definition.phase([Action::read(&shop.stock).body(|_| Ok(()))]);
    let procedure = shop.db.register(definition).expect("it is taken");
    assert!(matches!(shop.db.call(&procedure, args![0]), Err(Error::Panicked { .. })));
    assert!(matches!(shop.db.call(&procedure, args![1]), Err(Error::Failed { .. })));
    assert!(shop.db.call(&procedure, args![2]).is_ok());
}
