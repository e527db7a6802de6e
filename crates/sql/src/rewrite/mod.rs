//! Rewriting bound statements: constants are folded, correlated subqueries become joins.
