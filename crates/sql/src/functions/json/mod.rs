//! Functions and operators of `json` and `jsonb`.

pub(super) mod convert;
