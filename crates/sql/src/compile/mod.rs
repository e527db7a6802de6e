//! Compiling OLTP statements into procedures of the engine, once per statement.
