//! How a SQL type lies in a column of the engine.
