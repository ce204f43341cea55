//! Structured logs on standard error. They never contain passwords, texts of statements or values.

use tracing_subscriber::EnvFilter;

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// What is logged, unless the environment variable `FREESTONE_LOG` has a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Warnings and errors.
    Warnings,
    /// Also connections and logins.
    Events,
}

/// Writes the log of the process to standard error. Does nothing if a log is set up already.
pub fn start(format: LogFormat, detail: Detail) {
    let usual = match detail {
        Detail::Warnings => "warn",
        Detail::Events => "warn,freestone_server=info,freestone_cluster=info",
    };
    let filter = EnvFilter::try_from_env("FREESTONE_LOG").unwrap_or_else(|_| EnvFilter::new(usual));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let _ = match format {
        LogFormat::Text => builder.with_ansi(false).with_target(false).try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
}
