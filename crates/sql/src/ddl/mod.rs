//! Schema changes: CREATE, ALTER and DROP as transactions on the catalog.
