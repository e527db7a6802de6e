//! Functions as HammerDB has them, compared with PostgreSQL 15.

use heddle_sql::Connection;
use heddledb::ProtocolKind;

use super::{answer, sql};
use crate::support::oracle::Oracle;
use crate::support::samples::Random;

/// HammerDB's functions of TPC-C for PostgreSQL, in its style: positional aliases, cursors by name, arrays, handlers of
/// serialization failures.
const HAMMER: &[&str] = &[
    "create table district (d_id int, d_w_id int, d_next_o_id int, d_tax numeric(4,4), d_ytd numeric(12,2), primary key (d_w_id, d_id))",
    "create table customer (c_id int, c_d_id int, c_w_id int, c_first varchar(16), c_last varchar(16), c_balance numeric(12,2), c_data varchar(500), c_credit char(2), primary key (c_w_id, c_d_id, c_id))",
    "create table stock (s_i_id int, s_w_id int, s_quantity int, s_ytd int, primary key (s_w_id, s_i_id))",
    "create table orders (o_id int, o_d_id int, o_w_id int, o_c_id int, o_ol_cnt int, primary key (o_w_id, o_d_id, o_id))",
    "create table order_line (ol_o_id int, ol_d_id int, ol_w_id int, ol_number int, ol_i_id int, ol_amount numeric(6,2), primary key (ol_w_id, ol_d_id, ol_o_id, ol_number))",
    "insert into district select d, 1, 1, 0.05, 0 from generate_series(1, 3) d",
    "insert into customer select c, d, 1, 'first' || (c % 4), 'last' || (c % 3), 10, 'data', case when c % 5 = 0 then 'BC' else 'GC' end from generate_series(1, 12) c, generate_series(1, 3) d",
    "insert into stock select i, 1, 15 + i, 0 from generate_series(1, 20) i",
    "CREATE OR REPLACE FUNCTION DBMS_RANDOM (INTEGER, INTEGER) RETURNS INTEGER AS $$
    DECLARE
    start_int ALIAS FOR $1;
    end_int ALIAS FOR $2;
    BEGIN
    RETURN trunc(0.5 * (end_int-start_int + 1) + start_int);
    END;
    $$ LANGUAGE 'plpgsql' STRICT",
    "CREATE OR REPLACE FUNCTION NEWORD (INTEGER, INTEGER, INTEGER, INTEGER) RETURNS NUMERIC AS '
    DECLARE
    no_w_id ALIAS FOR $1;
    no_d_id ALIAS FOR $2;
    no_c_id ALIAS FOR $3;
    no_o_ol_cnt ALIAS FOR $4;
    no_d_next_o_id INTEGER;
    no_d_tax NUMERIC;
    no_c_last VARCHAR(16);
    item_id_array INTEGER[];
    quantity_array INTEGER[];
    no_s_quantity INTEGER;
    no_ol_amount NUMERIC := 0;
    loop_counter INTEGER;
    BEGIN
    SELECT c_last INTO no_c_last FROM customer WHERE c_w_id = no_w_id AND c_d_id = no_d_id AND c_id = no_c_id;
    UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = no_d_id AND d_w_id = no_w_id RETURNING d_next_o_id - 1, d_tax INTO no_d_next_o_id, no_d_tax;
    INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_ol_cnt) VALUES (no_d_next_o_id, no_d_id, no_w_id, no_c_id, no_o_ol_cnt);
    FOR loop_counter IN 1 .. no_o_ol_cnt
    LOOP
    item_id_array[loop_counter] := (no_c_id * 7 + loop_counter * 3) % 22 + 1;
    quantity_array[loop_counter] := round(DBMS_RANDOM(1, 10));
    SELECT s_quantity INTO STRICT no_s_quantity FROM stock WHERE s_i_id = item_id_array[loop_counter] AND s_w_id = no_w_id;
    IF ( no_s_quantity > quantity_array[loop_counter] ) THEN
    no_s_quantity := ( no_s_quantity - quantity_array[loop_counter] );
    ELSE
    no_s_quantity := ( no_s_quantity - quantity_array[loop_counter] + 91 );
    END IF;
    UPDATE stock SET s_quantity = no_s_quantity, s_ytd = s_ytd + quantity_array[loop_counter] WHERE s_i_id = item_id_array[loop_counter] AND s_w_id = no_w_id;
    no_ol_amount := no_ol_amount + quantity_array[loop_counter] * item_id_array[loop_counter];
    INSERT INTO order_line VALUES (no_d_next_o_id, no_d_id, no_w_id, loop_counter, item_id_array[loop_counter], quantity_array[loop_counter] * (1 + no_d_tax));
    END LOOP;
    RETURN no_ol_amount;
    EXCEPTION
    WHEN serialization_failure OR deadlock_detected OR no_data_found THEN
    RETURN -1;
    END;
    ' LANGUAGE 'plpgsql'",
    "CREATE OR REPLACE FUNCTION PAYMENT (p_w_id INTEGER, p_d_id INTEGER, p_c_last VARCHAR, p_h_amount NUMERIC, OUT p_c_id INTEGER, OUT p_c_balance NUMERIC, OUT namecnt INTEGER) AS $$
    DECLARE
    c_byname CURSOR FOR
    SELECT c_first, c_id, c_balance, c_credit FROM customer WHERE c_d_id = p_d_id AND c_last = p_c_last AND c_w_id = p_w_id ORDER BY c_first, c_id;
    p_c_first VARCHAR(16);
    p_c_credit CHAR(2);
    h_data VARCHAR(30);
    BEGIN
    UPDATE district SET d_ytd = d_ytd + p_h_amount WHERE d_w_id = p_w_id AND d_id = p_d_id;
    SELECT count(c_last) INTO namecnt FROM customer WHERE c_last = p_c_last AND c_d_id = p_d_id AND c_w_id = p_w_id;
    OPEN c_byname;
    IF mod (namecnt, 2) = 1 THEN namecnt := (namecnt + 1); END IF;
    FOR loop_counter IN 0 .. cast((namecnt/2) AS INTEGER)
    LOOP
    FETCH c_byname INTO p_c_first, p_c_id, p_c_balance, p_c_credit;
    END LOOP;
    CLOSE c_byname;
    p_c_balance := ( p_c_balance + p_h_amount );
    IF p_c_credit = 'BC' THEN
    h_data := substr(p_c_first || ' ' || p_c_id::text, 1, 30);
    UPDATE customer SET c_balance = p_c_balance, c_data = substr(h_data || ' ' || c_data, 1, 500) WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_id = p_c_id;
    ELSE
    UPDATE customer SET c_balance = p_c_balance WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_id = p_c_id;
    END IF;
    EXCEPTION
    WHEN serialization_failure OR deadlock_detected OR no_data_found THEN
    ROLLBACK;
    END;
    $$ LANGUAGE plpgsql",
    "CREATE OR REPLACE PROCEDURE DELIVERY (d_w_id INTEGER, INOUT delivered INTEGER) AS $$
    DECLARE
    d_d_id SMALLINT;
    d_amounts NUMERIC[];
    order_count INTEGER;
    BEGIN
    FOR d_d_id IN 1 .. 3 LOOP
      SELECT array_agg(ol_amount ORDER BY ol_o_id, ol_number), count(DISTINCT ol_o_id) INTO d_amounts, order_count FROM order_line WHERE ol_d_id = d_d_id AND ol_w_id = d_w_id;
      CONTINUE WHEN order_count = 0;
      UPDATE customer SET c_balance = c_balance + (SELECT sum(a) FROM unnest(d_amounts) a) WHERE c_d_id = d_d_id AND c_id = 1;
      delivered := delivered + order_count;
    END LOOP;
    END;
    $$ LANGUAGE plpgsql",
    "CREATE OR REPLACE FUNCTION SLEV (INTEGER, INTEGER, INTEGER) RETURNS INTEGER AS '
    DECLARE
    st_w_id ALIAS FOR $1;
    st_d_id ALIAS FOR $2;
    threshold ALIAS FOR $3;
    st_o_id NUMERIC;
    stock_count INTEGER;
    BEGIN
    SELECT d_next_o_id INTO st_o_id FROM district WHERE d_w_id=st_w_id AND d_id=st_d_id;
    SELECT COUNT(DISTINCT (s_i_id)) INTO stock_count FROM order_line, stock
    WHERE ol_w_id = st_w_id AND ol_d_id = st_d_id AND (ol_o_id < st_o_id) AND ol_o_id >= (st_o_id - 20)
    AND s_w_id = st_w_id AND s_i_id = ol_i_id AND s_quantity < threshold;
    RETURN stock_count;
    EXCEPTION WHEN serialization_failure OR deadlock_detected OR no_data_found THEN RETURN -2;
    END;
    ' LANGUAGE 'plpgsql'",
];

#[test]
fn functions_as_hammerdb_has_them_answer_as_on_postgres() {
    let Some(oracle) = Oracle::start() else { return };
    let mut theirs = oracle.connect();
    let connect = |&protocol| sql(protocol).connect(Default::default()).expect("a connection");
    let mut ours: Vec<Connection> = ProtocolKind::ALL.iter().map(connect).collect();
    let mut random = Random(5);
    let mut script: Vec<String> = HAMMER.iter().map(|statement| (*statement).to_string()).collect();
    for _ in 0..60 {
        let (district, customer) = (random.below(4), 1 + random.below(12));
        script.push(match random.below(5) {
            0 | 1 => format!("select NEWORD(1, {district}, {customer}, {})", 1 + random.below(6)),
            2 => format!("select * from PAYMENT(1, {district}, 'last{}', 12.5)", random.below(4)),
            3 => format!("select SLEV(1, {district}, 30)"),
            _ => "call DELIVERY(1, 0)".to_string(),
        });
    }
    for (table, key) in [
        ("district", "1, 2"),
        ("customer", "1, 2, 3"),
        ("stock", "1, 2"),
        ("orders", "1, 2, 3"),
        ("order_line", "1, 2, 3, 4"),
    ] {
        script.push(format!("select * from {table} order by {key}"));
    }
    for statement in &script {
        let expected = theirs.run(statement);
        for (connection, protocol) in ours.iter_mut().zip(ProtocolKind::ALL) {
            assert_eq!(answer(connection, statement), expected, "{protocol:?}: {statement}");
        }
    }
}
