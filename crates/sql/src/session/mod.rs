//! A connection: settings, transaction state, prepared statements, portals, cursors, COPY.
