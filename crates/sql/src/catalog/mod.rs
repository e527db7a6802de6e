//! The catalog as the binder sees it: schemas, tables, columns, indexes, views, sequences, enums, domains.
