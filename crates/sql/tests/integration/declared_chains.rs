//! Derived footprints of functions that lead to others: nested calls, triggers, and foreign keys that change the rows which refer
//! to a row. Every call declares all that it does, and answers as without a footprint, under every protocol.

use crate::support::calls::{answer, connect, database, run};
use heddle_sql::{Connection, Sql};
use heddledb::ProtocolKind;

fn explained(connection: &mut Connection, statement: &str) -> String {
    let results = connection.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    let rows = results.last().map(|result| connection.text_rows(result).expect("texts")).unwrap_or_default();
    rows.into_iter().flatten().map(|text| text.unwrap_or_default() + "\n").collect()
}

const SHOP: &str = "
    create table shop (id int primary key, sold int not null default 0, note text);
    create table goods (
        shop int references shop on delete cascade on update cascade, number int, amount int check (amount >= 0),
        price int, primary key (shop, number));
    create table mark (shop int, number int, label int, primary key (shop, number, label),
        foreign key (shop, number) references goods on delete cascade);
    create table chief (shop int primary key references shop on delete restrict, name text);
    create table journal (shop int, number int, what text, old int, new int, primary key (shop, number, what));
    insert into shop select i from generate_series(0, 9) i;
    insert into goods select s, n, 50, n + 1 from generate_series(0, 9) s, generate_series(0, 4) n;
    insert into mark select shop, number, l from goods, generate_series(1, 2) l;
    insert into chief values (0, 'Ada'), (1, 'Edgar');

    create function keep_journal() returns trigger language plpgsql as $$
    begin
        if tg_op = 'INSERT' then
            insert into journal values (new.shop, new.number, 'came', null, new.amount) on conflict do nothing;
        elsif tg_op = 'UPDATE' then
            insert into journal values (new.shop, new.number, tg_argv[0], old.amount, new.amount)
                on conflict (shop, number, what) do update set new = excluded.new;
        else
            insert into journal values (old.shop, old.number, 'gone', old.amount, null) on conflict do nothing;
        end if;
        return null;
    end $$;
    create trigger kept after insert or update or delete on goods
        for each row execute function keep_journal('changed');
    create function round_price() returns trigger language plpgsql as $$
    begin
        new.price := new.price / 2 * 2;
        if new.amount > 1000 then
            return null;
        end if;
        return new;
    end $$;
    create trigger rounded before insert or update of price on goods
        for each row when (new.price > 3) execute function round_price();
    create function count_sale() returns trigger language plpgsql as $$
    begin
        update shop set sold = sold + old.amount - new.amount where id = new.shop;
        return new;
    end $$;
    create trigger counted after update of amount on goods for each row execute function count_sale();

    create function price_of(s int, n int) returns int language sql as
        'select price from goods where shop = s and number = n';
    create function noted(s int, t text) returns void language plpgsql as $$
    begin
        update shop set note = t where id = s;
    end $$;
    create procedure sell(s int, n int, x int, inout due int default null) language plpgsql as $$
    begin
        update goods set amount = amount - x where shop = s and number = n;
        if not found then
            raise exception 'shop % has no %', s, n;
        end if;
        due := x * price_of(s, n);
    end $$;
    create function buy(s int, numbers int[], x int) returns int language plpgsql as $$
    declare
        total int := 0;
        due int;
        n int;
    begin
        foreach n in array numbers loop
            call sell(s, n, x, due);
            total := total + coalesce(due, 0);
        end loop;
        perform noted(s, 'sold for ' || total);
        return total;
    exception
        when check_violation then
            perform noted(s, 'sold out');
            return -1;
    end $$;
    create function put(s int, n int, x int, p int) returns void language sql as
        'insert into goods values (s, n, x, p)';
    create function pulled(s int, n int) returns bigint language plpgsql as $$
    declare
        amount int;
    begin
        delete from goods g where g.shop = s and g.number = n returning g.amount into amount;
        return amount;
    end $$;
    create function closed(s int) returns text language plpgsql as $$
    begin
        delete from shop where id = s;
        return 'closed';
    end $$;
    create function moved(s int, t int) returns void language sql as 'update chief set shop = t where shop = s';
    create function prices(s int) returns table (n int, p int) language sql as
        'select number, price from goods where shop = s order by number';
    create function dearest(s int) returns int language plpgsql as $$
    begin
        return (select max(p) from prices(s));
    end $$;
";

/// Calls, some of which fail.
fn calls() -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(61);
    let mut calls = Vec::new();
    for round in 0..30 {
        let (s, t, n, x) = (random.i32(0..11), random.i32(0..11), random.i32(0..6), random.i32(0..30));
        calls.extend([
            format!("select buy({s}, array[{n}, {}, {n}], {x})", random.i32(0..5)),
            format!("call sell({t}, {n}, {x})"),
            format!("select put({s}, {n}, {}, {x})", 100 * x),
            format!("select pulled({t}, {n})"),
            format!("select dearest({s})"),
            format!("select moved({s}, {t})"),
            format!("select * from prices({t})"),
        ]);
        if round % 5 == 4 {
            calls.push(format!("select closed({s})"));
        }
    }
    calls
}

const TABLES: [&str; 5] = ["shop", "goods", "mark", "chief", "journal"];

#[test]
fn answers_are_the_same_with_and_without_footprints_under_every_protocol() {
    let mut expected: Option<Vec<String>> = None;
    for &protocol in ProtocolKind::ALL {
        for derives in [true, false] {
            let sql = Sql::new(&database(protocol)).expect("SQL");
            let mut connection = connect(&sql, derives);
            run(&mut connection, SHOP);
            let mut answers: Vec<String> = calls().iter().map(|call| answer(&mut connection, call)).collect();
            answers
                .extend(TABLES.map(|table| {
                    answer(&mut connection, &format!("select * from {table} order by {table}"))
                }));
            let expected = expected.get_or_insert_with(|| answers.clone());
            for ((call, found), wanted) in calls().iter().zip(&answers).zip(&*expected) {
                assert_eq!(found, wanted, "{protocol}, derived {derives}: {call}");
            }
            assert_eq!(&answers, expected, "{protocol}, derived {derives}");
        }
    }
}

#[test]
fn what_nested_bodies_triggers_and_cascades_do_is_declared() {
    for protocol in [ProtocolKind::Serial, ProtocolKind::Locking, ProtocolKind::Partitioned] {
        let database = database(protocol);
        let sql = Sql::new(&database).expect("SQL");
        let mut connection = connect(&sql, true);
        run(&mut connection, SHOP);
        let calls = [
            "select buy(3, array[1, 2], 4)",
            "call sell(4, 1, 2)",
            "select put(5, 9, 10, 7)",
            "select pulled(6, 2)",
            "select closed(7)",
            "select moved(0, 8)",
            "select dearest(2)",
            "select * from prices(2)",
        ];
        // A miss would run the call once more, and be counted.
        for call in calls {
            let before = database.statistics();
            run(&mut connection, call);
            let counts = database.statistics() - before;
            assert_eq!((counts.failed, counts.committed), (0, 1), "{protocol}: {call}");
        }
        assert_eq!(
            answer(&mut connection, "select shop, number, what, old, new from journal order by 1, 2, 3"),
            "Some([[Some(\"3\"), Some(\"1\"), Some(\"changed\"), Some(\"50\"), Some(\"46\")], \
             [Some(\"3\"), Some(\"2\"), Some(\"changed\"), Some(\"50\"), Some(\"46\")], \
             [Some(\"4\"), Some(\"1\"), Some(\"changed\"), Some(\"50\"), Some(\"48\")], \
             [Some(\"5\"), Some(\"9\"), Some(\"came\"), None, Some(\"10\")], \
             [Some(\"6\"), Some(\"2\"), Some(\"gone\"), Some(\"50\"), None], \
             [Some(\"7\"), Some(\"0\"), Some(\"gone\"), Some(\"50\"), None], \
             [Some(\"7\"), Some(\"1\"), Some(\"gone\"), Some(\"50\"), None], \
             [Some(\"7\"), Some(\"2\"), Some(\"gone\"), Some(\"50\"), None], \
             [Some(\"7\"), Some(\"3\"), Some(\"gone\"), Some(\"50\"), None], \
             [Some(\"7\"), Some(\"4\"), Some(\"gone\"), Some(\"50\"), None]])",
            "{protocol}"
        );
    }
}

#[test]
fn explain_function_names_the_way_to_each_access() {
    let sql = Sql::new(&database(ProtocolKind::Optimistic)).expect("SQL");
    let mut connection = connect(&sql, true);
    run(&mut connection, SHOP);
    let cases: [(&str, &[&str]); 6] = [
        (
            "function buy",
            &[
                "Footprint: derived",
                "line 8: in sell(), line 3: write goods (shop = s, number = n), repeated",
                "line 8: in sell(), line 3: in trigger kept, line 6: write journal (shop = new.shop, number = new.number, what = tg_argv[0])",
                "line 8: in sell(), line 3: in trigger counted, line 3: write shop (id = new.shop), repeated",
                "line 8: in sell(), line 7: in price_of(), line 1: read goods (shop = s, number = n), repeated",
                "line 11: in noted(), line 3: write shop (id = s)",
            ],
        ),
        (
            "function put",
            &[
                "line 1: write goods (shop = s, number = n)",
                "line 1: read shop (id = s), for foreign key goods_shop_fkey",
                "line 1: in trigger kept, line 4: write journal (shop = new.shop, number = new.number, what = 'came')",
            ],
        ),
        (
            "function pulled",
            &[
                "write goods (shop = s, number = n)",
                "write mark (shop = s, number = n), for foreign key mark_shop_number_fkey; the rest of the key: a range of keys",
                "in trigger kept, line 9: write journal (shop = old.shop, number = old.number, what = 'gone')",
            ],
        ),
        (
            "function closed",
            &[
                "write shop (id = s)",
                "write goods (shop = s), for foreign key goods_shop_fkey",
                "write mark (shop = s), for foreign key mark_shop_number_fkey",
                "in trigger kept, line 9: write journal (shop = old.shop)",
                "read chief (shop = s), for foreign key chief_shop_fkey",
            ],
        ),
        (
            "function moved",
            &["write chief (shop = s)", "write chief (shop = t)", "read shop (id = t), for foreign key"],
        ),
        ("function dearest", &["line 3: in prices(), line 1: read goods (shop = s)"]),
    ];
    for (routine, lines) in cases {
        let text = explained(&mut connection, &format!("explain {routine}"));
        for line in lines {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}

#[test]
fn routines_of_checks_and_generated_columns_belong_to_a_footprint() {
    let sql = Sql::new(&database(ProtocolKind::Locking)).expect("SQL");
    let mut connection = connect(&sql, true);
    run(
        &mut connection,
        "create table bound (id int primary key, most int);
         create function within(n int) returns boolean language sql as 'select n <= most from bound where id = 1';
         create table entry (id int primary key, n int check (within(n)));
         create function enter(i int, n int) returns void language sql as 'insert into entry values (i, n)';
         insert into bound values (1, 10)",
    );
    let text = explained(&mut connection, "explain function enter");
    assert!(text.contains("in within(), line 1: read bound (id = 1)"), "{text}");
    run(&mut connection, "select enter(1, 10)");
    assert!(answer(&mut connection, "select enter(2, 11)").starts_with("23514"));
}
