//! Planning: access paths and join order, chosen by statistics.
