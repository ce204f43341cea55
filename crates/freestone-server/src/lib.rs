//! The Freestone server: sessions over Freestone wire, PostgreSQL wire and Arrow Flight SQL.
