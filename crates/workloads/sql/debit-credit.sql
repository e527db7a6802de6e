-- Debit-credit (1985) in PL/pgSQL: one call of a function is one transaction of a bank's customer.
-- Parameters are named p_…, variables v_…, so that they are never taken for columns.

-- Pays into or draws from an account, if the access code is right and the balance stays above the floor. The account
-- comes first, because it is the one that can fail.
create or replace function debit_credit(
    p_account_branch bigint, p_account bigint, p_branch bigint, p_teller bigint,
    p_amount bigint, p_code bigint, p_caller bigint, p_sequence bigint
) returns void language plpgsql as $$
declare
    v_balance bigint;
    v_floor bigint;
    v_code bigint;
begin
    select balance, floor, code into strict v_balance, v_floor, v_code
      from account where branch = p_account_branch and account = p_account;
    if v_code <> p_code then
        raise exception 'wrong access code';
    end if;
    if v_balance + p_amount < v_floor then
        raise exception 'below the balance floor';
    end if;
    update account set balance = balance + p_amount where branch = p_account_branch and account = p_account;
    update teller set balance = balance + p_amount where branch = p_branch and teller = p_teller;
    update branch set balance = balance + p_amount where branch = p_branch;
    insert into history (branch, caller, sequence, teller, account_branch, account, amount)
    values (p_branch, p_caller, p_sequence, p_teller, p_account_branch, p_account, p_amount);
end $$;

-- TPC-B's transaction (clause 1.2): nothing is checked, and the account's new balance is returned.
create or replace function tpc_b(
    p_account_branch bigint, p_account bigint, p_branch bigint, p_teller bigint,
    p_amount bigint, p_code bigint, p_caller bigint, p_sequence bigint
) returns bigint language plpgsql as $$
declare
    v_balance bigint;
begin
    update account set balance = balance + p_amount where branch = p_account_branch and account = p_account
    returning balance into strict v_balance;
    update teller set balance = balance + p_amount where branch = p_branch and teller = p_teller;
    update branch set balance = balance + p_amount where branch = p_branch;
    insert into history (branch, caller, sequence, teller, account_branch, account, amount)
    values (p_branch, p_caller, p_sequence, p_teller, p_account_branch, p_account, p_amount);
    return v_balance;
end $$;
