//! The ADBC driver.
